#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tonnage::fuzz::ledger(bytes));
