#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tonnage_server::fuzz::requests(bytes));
