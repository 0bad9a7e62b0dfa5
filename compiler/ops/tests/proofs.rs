//! Attention and the bidirectional LSTM as kernels, over symbolic sizes (the smaller proofs stand in `compiler/ir/tests`).

mod common;

use common::{Input, check, ramp, text};
use oaaxc_ir::{Attribute, DType, Tensor};

#[test]
fn causal_attention_with_grouped_heads_and_a_cache() {
    let q: Input = Some((ramp(&[2, 4, 3, 5]), &["B", "4", "S", "5"]));
    let k: Input = Some((ramp(&[2, 2, 3, 5]), &["B", "2", "S", "5"]));
    let v: Input = Some((ramp(&[2, 2, 3, 6]), &["B", "2", "S", "6"]));
    let past_k: Input = Some((ramp(&[2, 2, 4, 5]), &["B", "2", "P", "5"]));
    let past_v: Input = Some((ramp(&[2, 2, 4, 6]), &["B", "2", "P", "6"]));
    let attributes = [("is_causal", Attribute::Int(1)), ("softcap", Attribute::Float(2.0))];
    let y = check("", "Attention", &attributes, &[q, k, v, None, past_k, past_v], 4);
    assert_eq!((&y[0].dims[..], &y[1].dims[..]), (&[2, 4, 3, 6][..], &[2, 2, 7, 5][..]));
}

#[test]
fn a_query_that_sees_no_key_gives_zeros() {
    let x: Input = Some((ramp(&[1, 2, 4]), &["B", "S", "4"]));
    let mask: Input = Some((Tensor::from_i64s(DType::Bool, vec![2, 2], [0, 0, 1, 0]), &["S", "S"]));
    let attributes = [("q_num_heads", Attribute::Int(2)), ("kv_num_heads", Attribute::Int(2))];
    let y = check("", "Attention", &attributes, &[x.clone(), x.clone(), x, mask], 1);
    assert_eq!(y[0].to_f64s()[..4], [0.0; 4]);
    assert!(y[0].f64_at(5) != 0.0);
}

#[test]
fn a_bidirectional_lstm_over_symbolic_time_and_batch() {
    let attributes = [("direction", text("bidirectional")), ("hidden_size", Attribute::Int(3))];
    let inputs = [
        Some((ramp(&[4, 2, 5]), &["T", "B", "5"][..])),
        Some((ramp(&[2, 12, 5]), &[][..])),
        Some((ramp(&[2, 12, 3]), &[][..])),
        Some((ramp(&[2, 24]), &[][..])),
        Some((Tensor::from_i64s(DType::I32, vec![2], [4, 2]), &["B"][..])),
    ];
    let y = check("", "LSTM", &attributes, &inputs, 3);
    assert_eq!(y[0].dims, [4, 2, 2, 3]);
    // The short sequence gives zeros behind its end.
    assert_eq!(y[0].to_f64s()[(3 * 2 * 2 + 1) * 3..(3 * 2 * 2 + 2) * 3], [0.0; 3]);
}
