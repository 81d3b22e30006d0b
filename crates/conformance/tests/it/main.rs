//! Tests of the suite as a library: the table of cases, and options.

#![cfg(test)]

mod case_table;
mod races;
