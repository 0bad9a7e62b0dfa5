; Conversions of half and bfloat16 that a CPU level does not do inline, rounded once to nearest even.

; A half's significand quantum below 2^-14 is 2^-24, which is the last place of floats in [0.5, 1): adding 0.5
; rounds a small number as a subnormal half must be.
define hidden half @__truncsfhf2(float %x) #0 section ".text.__truncsfhf2" {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %sign.high = lshr i32 %bits, 16
  %sign = and i32 %sign.high, 32768
  ; normal: rebias the exponent by -112, round off 13 bits
  %rebiased = sub i32 %size, 939524096
  %odd.high = lshr i32 %rebiased, 13
  %odd = and i32 %odd.high, 1
  %bumped.0 = add i32 %rebiased, 4095
  %bumped = add i32 %bumped.0, %odd
  %normal = lshr i32 %bumped, 13
  ; subnormal
  %magnitude = bitcast i32 %size to float
  %shifted = fadd float %magnitude, 5.0e-1
  %shifted.bits = bitcast float %shifted to i32
  %subnormal = sub i32 %shifted.bits, 1056964608
  %is.small = icmp ult i32 %size, 947912704
  %finite = select i1 %is.small, i32 %subnormal, i32 %normal
  ; from 65520 on: infinity; a NaN stays quiet and keeps its upper payload
  %is.large = icmp uge i32 %size, 1199566848
  %or.infinity = select i1 %is.large, i32 31744, i32 %finite
  %payload.high = lshr i32 %size, 13
  %payload = and i32 %payload.high, 511
  %nan = or i32 %payload, 32256
  %is.nan = icmp ugt i32 %size, 2139095040
  %unsigned = select i1 %is.nan, i32 %nan, i32 %or.infinity
  %all = or i32 %unsigned, %sign
  %half.bits = trunc i32 %all to i16
  %r = bitcast i16 %half.bits to half
  ret half %r
}

define hidden float @__extendhfsf2(half %x) #0 section ".text.__extendhfsf2" {
  %half.bits = bitcast half %x to i16
  %bits = zext i16 %half.bits to i32
  %size = and i32 %bits, 32767
  %sign.low = and i32 %bits, 32768
  %sign = shl i32 %sign.low, 16
  %shifted = shl i32 %size, 13
  %normal = add i32 %shifted, 939524096
  ; infinity and NaN: exponent to all ones, NaN made quiet
  %infinite = or i32 %shifted, 2139095040
  %quiet = or i32 %infinite, 4194304
  %is.nan = icmp ugt i32 %size, 31744
  %special = select i1 %is.nan, i32 %quiet, i32 %infinite
  %is.special = icmp uge i32 %size, 31744
  ; subnormal: an integer times 2^-24
  %integer = uitofp i32 %size to float
  %tiny = fmul float %integer, 0x3E70000000000000
  %tiny.bits = bitcast float %tiny to i32
  %is.tiny = icmp ult i32 %size, 1024
  %finite = select i1 %is.tiny, i32 %tiny.bits, i32 %normal
  %unsigned = select i1 %is.special, i32 %special, i32 %finite
  %all = or i32 %unsigned, %sign
  %r = bitcast i32 %all to float
  ret float %r
}

; Rounds to odd: an inexact result takes the neighbour whose last bit is one, so that a second rounding to at
; most 22 bits is as if done once (Boldo and Melquiond, 2008).
define internal float @odd(double %x) #0 section ".text.odd" {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %x.size = call double @llvm.fabs.f64(double %x)
  %back.size = call double @llvm.fabs.f64(double %back)
  %above = fcmp ogt double %back.size, %x.size
  %step = zext i1 %above to i32
  %below = sub i32 %bits, %step
  %odd = or i32 %below, 1
  %inexact = fcmp une double %back, %x
  %r.bits = select i1 %inexact, i32 %odd, i32 %bits
  %r = bitcast i32 %r.bits to float
  ret float %r
}

define hidden half @__truncdfhf2(double %x) #0 section ".text.__truncdfhf2" {
  %odd = call float @odd(double %x)
  %r = call half @__truncsfhf2(float %odd)
  ret half %r
}

define hidden bfloat @__truncsfbf2(float %x) #0 section ".text.__truncsfbf2" {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %bumped.0 = add i32 %bits, 32767
  %bumped = add i32 %bumped.0, %odd
  %rounded = lshr i32 %bumped, 16
  %quiet = or i32 %high, 64
  %is.nan = icmp ugt i32 %size, 2139095040
  %all = select i1 %is.nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %all to i16
  %r = bitcast i16 %short to bfloat
  ret bfloat %r
}

define hidden bfloat @__truncdfbf2(double %x) #0 section ".text.__truncdfbf2" {
  %odd = call float @odd(double %x)
  %r = call bfloat @__truncsfbf2(float %odd)
  ret bfloat %r
}

declare double @llvm.fabs.f64(double)

attributes #0 = { nounwind "no-builtins" }
