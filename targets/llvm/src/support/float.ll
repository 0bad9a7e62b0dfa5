; Float routines that LLVM calls for frem, and for fma where the machine has none. All are exact or rounded once.

; x - trunc(x/y)·y, exactly: significands as integers, eleven exponent steps a division.
define hidden double @fmod(double %x, double %y) #0 section ".text.fmod" {
entry:
  %x.bits = bitcast double %x to i64
  %y.bits = bitcast double %y to i64
  %ax = and i64 %x.bits, 9223372036854775807
  %ay = and i64 %y.bits, 9223372036854775807
  %sign = and i64 %x.bits, -9223372036854775808
  %y.zero = icmp eq i64 %ay, 0
  %y.nan = icmp ugt i64 %ay, 9218868437227405312
  %x.special = icmp uge i64 %ax, 9218868437227405312
  %bad.0 = or i1 %y.zero, %y.nan
  %bad = or i1 %bad.0, %x.special
  br i1 %bad, label %invalid, label %ordered

invalid:
  %product = fmul double %x, %y
  %nan = fdiv double %product, %product
  ret double %nan

ordered:
  %less = icmp ult i64 %ax, %ay
  br i1 %less, label %same, label %start

same:
  ret double %x

start:
  %px = call { i64, i64 } @split(i64 %ax)
  %py = call { i64, i64 } @split(i64 %ay)
  %mx = extractvalue { i64, i64 } %px, 0
  %ex = extractvalue { i64, i64 } %px, 1
  %my = extractvalue { i64, i64 } %py, 0
  %ey = extractvalue { i64, i64 } %py, 1
  %d = sub i64 %ex, %ey
  %r0 = urem i64 %mx, %my
  br label %loop

loop:
  %left = phi i64 [ %d, %start ], [ %left.next, %step ]
  %r = phi i64 [ %r0, %start ], [ %r.next, %step ]
  %over = icmp eq i64 %left, 0
  br i1 %over, label %finish, label %step

step:
  %k = call i64 @llvm.umin.i64(i64 %left, i64 11)
  %scaled = shl i64 %r, %k
  %r.next = urem i64 %scaled, %my
  %left.next = sub i64 %left, %k
  br label %loop

finish:
  %zero = icmp eq i64 %r, 0
  br i1 %zero, label %signed.zero, label %pack

signed.zero:
  %z = bitcast i64 %sign to double
  ret double %z

pack:
  %lead = call i64 @llvm.ctlz.i64(i64 %r, i1 true)
  %up = sub i64 %lead, 11
  %m = shl i64 %r, %up
  %e = sub i64 %ey, %up
  %normal = icmp sgt i64 %e, 0
  %e.less = sub i64 %e, 1
  %e.field = shl i64 %e.less, 52
  %as.normal = add i64 %m, %e.field
  %down = sub i64 1, %e
  %down.safe = select i1 %normal, i64 0, i64 %down
  %as.subnormal = lshr i64 %m, %down.safe
  %size = select i1 %normal, i64 %as.normal, i64 %as.subnormal
  %all = or i64 %size, %sign
  %result = bitcast i64 %all to double
  ret double %result
}

; Magnitude bits of a finite non-zero double to (significand with bit 52 set, biased exponent, maybe below 1).
define internal { i64, i64 } @split(i64 %a) #0 section ".text.split" {
  %e = lshr i64 %a, 52
  %fraction = and i64 %a, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %lead = call i64 @llvm.ctlz.i64(i64 %a, i1 false)
  %up = sub i64 %lead, 11
  %up.safe = and i64 %up, 63
  %m.tiny = shl i64 %a, %up.safe
  %e.tiny = sub i64 1, %up
  %tiny = icmp eq i64 %e, 0
  %m.out = select i1 %tiny, i64 %m.tiny, i64 %m
  %e.out = select i1 %tiny, i64 %e.tiny, i64 %e
  %p = insertvalue { i64, i64 } poison, i64 %m.out, 0
  %q = insertvalue { i64, i64 } %p, i64 %e.out, 1
  ret { i64, i64 } %q
}

; The remainder of two floats is a float, and that of their doubles is the same number.
define hidden float @fmodf(float %x, float %y) #0 section ".text.fmodf" {
  %wx = fpext float %x to double
  %wy = fpext float %y to double
  %r = call double @fmod(double %wx, double %wy)
  %n = fptrunc double %r to float
  ret float %n
}

; The product of floats is exact in double; the sum is rounded to odd there, then once to float
; (Boldo and Melquiond, 2008).
define hidden float @fmaf(float %x, float %y, float %z) #0 section ".text.fmaf" {
  %wx = fpext float %x to double
  %wy = fpext float %y to double
  %wz = fpext float %z to double
  %p = fmul double %wx, %wy
  %s = fadd double %p, %wz
  ; the error of the sum, exactly (Knuth)
  %b = fsub double %s, %p
  %a = fsub double %s, %b
  %dz = fsub double %wz, %b
  %dp = fsub double %p, %a
  %error = fadd double %dp, %dz
  %bits = bitcast double %s to i64
  %low = and i64 %bits, 1
  %even = icmp eq i64 %low, 0
  %inexact = fcmp one double %error, 0.0
  %move = and i1 %even, %inexact
  %error.positive = fcmp ogt double %error, 0.0
  %s.positive = fcmp ogt double %s, 0.0
  %shrink = xor i1 %error.positive, %s.positive
  %direction = select i1 %shrink, i64 -1, i64 1
  %moved = add i64 %bits, %direction
  %odd.bits = select i1 %move, i64 %moved, i64 %bits
  %odd = bitcast i64 %odd.bits to double
  %r = fptrunc double %odd to float
  ret float %r
}

; x·y + z in 128-bit fixed point: the product's top bit stands at 124 or 125, z's at 124, the smaller is shifted
; right with its lost bits joined into the last one, and the sum is rounded once.
define hidden double @fma(double %x, double %y, double %z) #0 section ".text.fma" {
entry:
  %x.bits = bitcast double %x to i64
  %y.bits = bitcast double %y to i64
  %z.bits = bitcast double %z to i64
  %ax = and i64 %x.bits, 9223372036854775807
  %ay = and i64 %y.bits, 9223372036854775807
  %az = and i64 %z.bits, 9223372036854775807
  %x.zero = icmp eq i64 %ax, 0
  %y.zero = icmp eq i64 %ay, 0
  %x.special = icmp uge i64 %ax, 9218868437227405312
  %y.special = icmp uge i64 %ay, 9218868437227405312
  %s.0 = or i1 %x.zero, %y.zero
  %s.1 = or i1 %x.special, %y.special
  %plain = or i1 %s.0, %s.1
  br i1 %plain, label %simple, label %z.check

simple:
  %simple.p = fmul double %x, %y
  %simple.r = fadd double %simple.p, %z
  ret double %simple.r

z.check:
  %z.special = icmp uge i64 %az, 9218868437227405312
  br i1 %z.special, label %z.wins, label %z.finite

z.wins:
  %z.quiet = fadd double %z, %z
  ret double %z.quiet

z.finite:
  %z.zero = icmp eq i64 %az, 0
  br i1 %z.zero, label %product.only, label %start

product.only:
  %only = fmul double %x, %y
  ret double %only

start:
  %px = call { i64, i64 } @split(i64 %ax)
  %py = call { i64, i64 } @split(i64 %ay)
  %pz = call { i64, i64 } @split(i64 %az)
  %mx = extractvalue { i64, i64 } %px, 0
  %ex = extractvalue { i64, i64 } %px, 1
  %my = extractvalue { i64, i64 } %py, 0
  %ey = extractvalue { i64, i64 } %py, 1
  %mz = extractvalue { i64, i64 } %pz, 0
  %ez = extractvalue { i64, i64 } %pz, 1
  %p.sign.bits = xor i64 %x.bits, %y.bits
  %p.sign = and i64 %p.sign.bits, -9223372036854775808
  %z.sign = and i64 %z.bits, -9223372036854775808
  %mx.wide = zext i64 %mx to i128
  %my.wide = zext i64 %my to i128
  %mz.wide = zext i64 %mz to i128
  %p.exact = mul i128 %mx.wide, %my.wide
  %p = shl i128 %p.exact, 20
  %q = shl i128 %mz.wide, 72
  ; exponents of the last bits: a biased exponent e has its last place at e - 1075
  %e.sum = add i64 %ex, %ey
  %ep = sub i64 %e.sum, 2170
  %eq = sub i64 %ez, 1147
  %distance = sub i64 %ep, %eq
  %p.higher = icmp sge i64 %distance, 0
  %e = select i1 %p.higher, i64 %ep, i64 %eq
  %gap = call i64 @llvm.abs.i64(i64 %distance, i1 false)
  %gap.safe = call i64 @llvm.umin.i64(i64 %gap, i64 127)
  %gap.wide = zext i64 %gap.safe to i128
  %lower = select i1 %p.higher, i128 %q, i128 %p
  %lower.shifted = lshr i128 %lower, %gap.wide
  %lower.back = shl i128 %lower.shifted, %gap.wide
  %lost = icmp ne i128 %lower.back, %lower
  %sticky = zext i1 %lost to i128
  %lower.joined = or i128 %lower.shifted, %sticky
  %p.aligned = select i1 %p.higher, i128 %p, i128 %lower.joined
  %q.aligned = select i1 %p.higher, i128 %lower.joined, i128 %q
  %sum = add i128 %p.aligned, %q.aligned
  %p.minus = sub i128 %p.aligned, %q.aligned
  %q.minus = sub i128 %q.aligned, %p.aligned
  %p.larger = icmp uge i128 %p.aligned, %q.aligned
  %difference = select i1 %p.larger, i128 %p.minus, i128 %q.minus
  %same.sign = icmp eq i64 %p.sign, %z.sign
  %r = select i1 %same.sign, i128 %sum, i128 %difference
  %sign = select i1 %p.larger, i64 %p.sign, i64 %z.sign
  %cancelled = icmp eq i128 %r, 0
  br i1 %cancelled, label %nothing, label %round

nothing:
  ret double 0.0

round:
  %lead = call i128 @llvm.ctlz.i128(i128 %r, i1 true)
  %lead.64 = trunc i128 %lead to i64
  %top = sub i64 127, %lead.64
  %exponent = add i64 %top, %e
  %huge = icmp sgt i64 %exponent, 1023
  br i1 %huge, label %overflow, label %place

overflow:
  %infinity = or i64 %sign, 9218868437227405312
  %inf = bitcast i64 %infinity to double
  ret double %inf

place:
  %last.normal = sub i64 %exponent, 52
  %last = call i64 @llvm.smax.i64(i64 %last.normal, i64 -1074)
  %shift = sub i64 %last, %e
  %right = icmp sgt i64 %shift, 0
  br i1 %right, label %shorten, label %lengthen

lengthen:                                         ; fewer than 53 bits: exact
  %left = sub i64 0, %shift
  %left.wide = zext i64 %left to i128
  %exact = shl i128 %r, %left.wide
  br label %pack

shorten:
  %gone = icmp sgt i64 %shift, 127
  br i1 %gone, label %vanish, label %nearest

vanish:
  br label %pack

nearest:
  %shift.wide = zext i64 %shift to i128
  %kept = lshr i128 %r, %shift.wide
  %unit = shl i128 1, %shift.wide
  %mask = sub i128 %unit, 1
  %rest = and i128 %r, %mask
  %half = lshr i128 %unit, 1
  %above = icmp ugt i128 %rest, %half
  %tie = icmp eq i128 %rest, %half
  %kept.odd = trunc i128 %kept to i1
  %tie.up = and i1 %tie, %kept.odd
  %up = or i1 %above, %tie.up
  %up.wide = zext i1 %up to i128
  %rounded = add i128 %kept, %up.wide
  br label %pack

pack:
  %m = phi i128 [ %exact, %lengthen ], [ 0, %vanish ], [ %rounded, %nearest ]
  %m.64 = trunc i128 %m to i64
  %field = add i64 %last, 1074
  %field.high = shl i64 %field, 52
  %size = add i64 %m.64, %field.high
  %all = or i64 %size, %sign
  %result = bitcast i64 %all to double
  ret double %result
}

declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i128 @llvm.ctlz.i128(i128, i1)

attributes #0 = { nounwind "no-builtins" }
