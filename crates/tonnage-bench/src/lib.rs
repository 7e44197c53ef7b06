//! Measuring: [`measure`] runs loads by a matrix of settings and decides between them, or looks at how rows reach the
//! pages and the log of one table.

pub mod measure;
