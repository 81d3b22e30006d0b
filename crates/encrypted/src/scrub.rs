//! [`scrubbed`]: work on a key that leaves nothing of it on the stack.
//!
//! A key has one place, on the heap, and is zeroized there. Whatever computes with it leaves parts of it on the stack: round keys that
//! were moved to where they belong, blocks of a hash function, spilled registers.

use std::hint::black_box;

use zeroize::optimization_barrier;

/// How much of the stack is overwritten: more than any work here uses.
const STACK_BYTES: usize = 32 * 1024;

/// How much of the stack lies between the caller and the work, so that no frame of the work begins above what is overwritten.
const GAP_BYTES: usize = 256;

/// Does work on a secret, and overwrites the part of the stack that it used. What it returns must hold no secret but by a pointer.
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
