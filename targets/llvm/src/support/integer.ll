; Division of 128-bit integers, which no CPU level does inline: the quotient bit by bit, or one hardware
; division when both operands fit 64 bits. Division by zero gives zero quotient and remainder a (never traps).

define internal { i128, i128 } @divide(i128 %a, i128 %b) #0 section ".text.divide128" {
entry:
  %either = or i128 %a, %b
  %small = icmp ult i128 %either, 18446744073709551616
  %zero = icmp eq i128 %b, 0
  br i1 %zero, label %none, label %sized

sized:
  br i1 %small, label %hardware, label %compare

hardware:
  %a64 = trunc i128 %a to i64
  %b64 = trunc i128 %b to i64
  %q64 = udiv i64 %a64, %b64
  %p64 = mul i64 %q64, %b64
  %r64 = sub i64 %a64, %p64
  %q.wide = zext i64 %q64 to i128
  %r.wide = zext i64 %r64 to i128
  br label %exit

compare:
  %less = icmp ult i128 %a, %b
  br i1 %less, label %none, label %align

none:
  br label %exit

align:                                            ; shift b until its top bit meets that of a
  %za = call i128 @llvm.ctlz.i128(i128 %a, i1 true)
  %zb = call i128 @llvm.ctlz.i128(i128 %b, i1 true)
  %shift = sub i128 %zb, %za
  %b.top = shl i128 %b, %shift
  br label %loop

loop:
  %n = phi i128 [ %shift, %align ], [ %n.next, %loop ]
  %r = phi i128 [ %a, %align ], [ %r.next, %loop ]
  %d = phi i128 [ %b.top, %align ], [ %d.next, %loop ]
  %q = phi i128 [ 0, %align ], [ %q.next, %loop ]
  %fits = icmp uge i128 %r, %d
  %r.less = sub i128 %r, %d
  %r.next = select i1 %fits, i128 %r.less, i128 %r
  %bit = zext i1 %fits to i128
  %q.twice = shl i128 %q, 1
  %q.next = or i128 %q.twice, %bit
  %d.next = lshr i128 %d, 1
  %n.next = sub i128 %n, 1
  %last = icmp eq i128 %n, 0
  br i1 %last, label %exit, label %loop

exit:
  %quotient = phi i128 [ %q.wide, %hardware ], [ 0, %none ], [ %q.next, %loop ]
  %remainder = phi i128 [ %r.wide, %hardware ], [ %a, %none ], [ %r.next, %loop ]
  %pair = insertvalue { i128, i128 } poison, i128 %quotient, 0
  %both = insertvalue { i128, i128 } %pair, i128 %remainder, 1
  ret { i128, i128 } %both
}

define hidden i128 @__udivti3(i128 %a, i128 %b) #0 section ".text.__udivti3" {
  %both = call { i128, i128 } @divide(i128 %a, i128 %b)
  %q = extractvalue { i128, i128 } %both, 0
  ret i128 %q
}

define hidden i128 @__umodti3(i128 %a, i128 %b) #0 section ".text.__umodti3" {
  %both = call { i128, i128 } @divide(i128 %a, i128 %b)
  %r = extractvalue { i128, i128 } %both, 1
  ret i128 %r
}

; Signed division rounds towards zero: divide magnitudes, then sign the quotient by both operands.
define hidden i128 @__divti3(i128 %a, i128 %b) #0 section ".text.__divti3" {
  %a.size = call i128 @llvm.abs.i128(i128 %a, i1 false)
  %b.size = call i128 @llvm.abs.i128(i128 %b, i1 false)
  %both = call { i128, i128 } @divide(i128 %a.size, i128 %b.size)
  %q = extractvalue { i128, i128 } %both, 0
  %signs = xor i128 %a, %b
  %negative = icmp slt i128 %signs, 0
  %q.negated = sub i128 0, %q
  %r = select i1 %negative, i128 %q.negated, i128 %q
  ret i128 %r
}

; The remainder has the sign of the dividend.
define hidden i128 @__modti3(i128 %a, i128 %b) #0 section ".text.__modti3" {
  %a.size = call i128 @llvm.abs.i128(i128 %a, i1 false)
  %b.size = call i128 @llvm.abs.i128(i128 %b, i1 false)
  %both = call { i128, i128 } @divide(i128 %a.size, i128 %b.size)
  %m = extractvalue { i128, i128 } %both, 1
  %negative = icmp slt i128 %a, 0
  %m.negated = sub i128 0, %m
  %r = select i1 %negative, i128 %m.negated, i128 %m
  ret i128 %r
}

declare i128 @llvm.ctlz.i128(i128, i1)
declare i128 @llvm.abs.i128(i128, i1)

attributes #0 = { nounwind "no-builtins" }
