//! [`scrubbed`]: runs a computation with a key and clears the stack that it used.
//!
//! A key is stored on the heap and zeroized there. Computations with the key leave parts of it on the stack, such as
//! round keys, blocks of a hash function and spilled registers.

use std::hint::black_box;

use zeroize::optimization_barrier;

/// The size of the stack area to overwrite, which exceeds the stack use of every computation in this crate.
const STACK_BYTES: usize = 32 * 1024;

/// The distance on the stack between the caller and the work. It keeps all frames of the work inside the overwritten
/// area.
const GAP_BYTES: usize = 256;

/// Runs work on a secret, then overwrites the part of the stack that it used. The result may contain secrets only
/// behind a pointer.
pub(crate) fn scrubbed<T>(work: impl FnOnce() -> T) -> T {
    let result = below_a_gap(work);
    overwrite_stack();
    result
}

#[inline(never)]
fn below_a_gap<T>(work: impl FnOnce() -> T) -> T {
    let gap = [0_u8; GAP_BYTES];
    black_box(&gap);
    let result = run(work);
    black_box(&gap);
    result
}

#[inline(never)]
fn run<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[inline(never)]
fn overwrite_stack() {
    let zeros = [0_u8; STACK_BYTES];
    optimization_barrier(&zeros);
}
