; Memory routines that LLVM invents at -O3. "no-builtins" keeps these loops from becoming calls of themselves.
; Each stands in its own section, so that the linker drops what a code object does not use.

define hidden ptr @memcpy(ptr returned %d, ptr %s, i64 %n) #0 section ".text.memcpy" {
entry:
  %wide = icmp uge i64 %n, 64
  br i1 %wide, label %loop64, label %below64

loop64:                                           ; 64 bytes a turn while more than 64 are left
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop64 ]
  %s.i = getelementptr i8, ptr %s, i64 %i
  %d.i = getelementptr i8, ptr %d, i64 %i
  %v.i = load <64 x i8>, ptr %s.i, align 1
  store <64 x i8> %v.i, ptr %d.i, align 1
  %i.next = add i64 %i, 64
  %left = sub i64 %n, %i.next
  %more = icmp uge i64 %left, 64
  br i1 %more, label %loop64, label %tail64

tail64:                                           ; the last 64 bytes again, overlapping
  %end64 = sub i64 %n, 64
  %s.t = getelementptr i8, ptr %s, i64 %end64
  %d.t = getelementptr i8, ptr %d, i64 %end64
  %v.t = load <64 x i8>, ptr %s.t, align 1
  store <64 x i8> %v.t, ptr %d.t, align 1
  ret ptr %d

below64:
  %mid = icmp uge i64 %n, 16
  br i1 %mid, label %loop16, label %bytes

loop16:
  %j = phi i64 [ 0, %below64 ], [ %j.next, %loop16 ]
  %s.j = getelementptr i8, ptr %s, i64 %j
  %d.j = getelementptr i8, ptr %d, i64 %j
  %v.j = load <16 x i8>, ptr %s.j, align 1
  store <16 x i8> %v.j, ptr %d.j, align 1
  %j.next = add i64 %j, 16
  %left16 = sub i64 %n, %j.next
  %more16 = icmp uge i64 %left16, 16
  br i1 %more16, label %loop16, label %tail16

tail16:
  %end16 = sub i64 %n, 16
  %s.u = getelementptr i8, ptr %s, i64 %end16
  %d.u = getelementptr i8, ptr %d, i64 %end16
  %v.u = load <16 x i8>, ptr %s.u, align 1
  store <16 x i8> %v.u, ptr %d.u, align 1
  ret ptr %d

bytes:
  %k = phi i64 [ 0, %below64 ], [ %k.next, %byte ]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %exit, label %byte

byte:
  %s.k = getelementptr i8, ptr %s, i64 %k
  %d.k = getelementptr i8, ptr %d, i64 %k
  %v.k = load i8, ptr %s.k, align 1
  store i8 %v.k, ptr %d.k, align 1
  %k.next = add i64 %k, 1
  br label %bytes

exit:
  ret ptr %d
}

define hidden ptr @memmove(ptr returned %d, ptr %s, i64 %n) #0 section ".text.memmove" {
entry:
  %d.int = ptrtoint ptr %d to i64
  %s.int = ptrtoint ptr %s to i64
  %distance = sub i64 %d.int, %s.int
  %forward = icmp uge i64 %distance, %n           ; also when d lies below s
  br i1 %forward, label %up, label %down

up:                                               ; 16 bytes a turn, each read before it can be overwritten
  %i = phi i64 [ 0, %entry ], [ %i.next, %up16 ]
  %left = sub i64 %n, %i
  %wide = icmp uge i64 %left, 16
  br i1 %wide, label %up16, label %up.bytes

up16:
  %s.i = getelementptr i8, ptr %s, i64 %i
  %d.i = getelementptr i8, ptr %d, i64 %i
  %v.i = load <16 x i8>, ptr %s.i, align 1
  store <16 x i8> %v.i, ptr %d.i, align 1
  %i.next = add i64 %i, 16
  br label %up

up.bytes:
  %j = phi i64 [ %i, %up ], [ %j.next, %up1 ]
  %up.done = icmp eq i64 %j, %n
  br i1 %up.done, label %exit, label %up1

up1:
  %s.j = getelementptr i8, ptr %s, i64 %j
  %d.j = getelementptr i8, ptr %d, i64 %j
  %v.j = load i8, ptr %s.j, align 1
  store i8 %v.j, ptr %d.j, align 1
  %j.next = add i64 %j, 1
  br label %up.bytes

down:
  %k = phi i64 [ %n, %entry ], [ %k.next, %down16 ]
  %k.wide = icmp uge i64 %k, 16
  br i1 %k.wide, label %down16, label %down.bytes

down16:
  %k.next = sub i64 %k, 16
  %s.k = getelementptr i8, ptr %s, i64 %k.next
  %d.k = getelementptr i8, ptr %d, i64 %k.next
  %v.k = load <16 x i8>, ptr %s.k, align 1
  store <16 x i8> %v.k, ptr %d.k, align 1
  br label %down

down.bytes:
  %l = phi i64 [ %k, %down ], [ %l.next, %down1 ]
  %down.done = icmp eq i64 %l, 0
  br i1 %down.done, label %exit, label %down1

down1:
  %l.next = sub i64 %l, 1
  %s.l = getelementptr i8, ptr %s, i64 %l.next
  %d.l = getelementptr i8, ptr %d, i64 %l.next
  %v.l = load i8, ptr %s.l, align 1
  store i8 %v.l, ptr %d.l, align 1
  br label %down.bytes

exit:
  ret ptr %d
}

define hidden ptr @memset(ptr returned %d, i32 %c, i64 %n) #0 section ".text.memset" {
entry:
  %byte.value = trunc i32 %c to i8
  %seed = insertelement <64 x i8> poison, i8 %byte.value, i64 0
  %v64 = shufflevector <64 x i8> %seed, <64 x i8> poison, <64 x i32> zeroinitializer
  %v16 = shufflevector <64 x i8> %seed, <64 x i8> poison, <16 x i32> zeroinitializer
  %wide = icmp uge i64 %n, 64
  br i1 %wide, label %loop64, label %below64

loop64:
  %i = phi i64 [ 0, %entry ], [ %i.next, %loop64 ]
  %d.i = getelementptr i8, ptr %d, i64 %i
  store <64 x i8> %v64, ptr %d.i, align 1
  %i.next = add i64 %i, 64
  %left = sub i64 %n, %i.next
  %more = icmp uge i64 %left, 64
  br i1 %more, label %loop64, label %tail64

tail64:
  %end64 = sub i64 %n, 64
  %d.t = getelementptr i8, ptr %d, i64 %end64
  store <64 x i8> %v64, ptr %d.t, align 1
  ret ptr %d

below64:
  %mid = icmp uge i64 %n, 16
  br i1 %mid, label %loop16, label %bytes

loop16:
  %j = phi i64 [ 0, %below64 ], [ %j.next, %loop16 ]
  %d.j = getelementptr i8, ptr %d, i64 %j
  store <16 x i8> %v16, ptr %d.j, align 1
  %j.next = add i64 %j, 16
  %left16 = sub i64 %n, %j.next
  %more16 = icmp uge i64 %left16, 16
  br i1 %more16, label %loop16, label %tail16

tail16:
  %end16 = sub i64 %n, 16
  %d.u = getelementptr i8, ptr %d, i64 %end16
  store <16 x i8> %v16, ptr %d.u, align 1
  ret ptr %d

bytes:
  %k = phi i64 [ 0, %below64 ], [ %k.next, %byte ]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %exit, label %byte

byte:
  %d.k = getelementptr i8, ptr %d, i64 %k
  store i8 %byte.value, ptr %d.k, align 1
  %k.next = add i64 %k, 1
  br label %bytes

exit:
  ret ptr %d
}

define hidden i32 @memcmp(ptr %a, ptr %b, i64 %n) #0 section ".text.memcmp" {
entry:
  br label %words

words:                                            ; skip equal words of eight bytes
  %i = phi i64 [ 0, %entry ], [ %i.next, %equal ]
  %left = sub i64 %n, %i
  %wide = icmp uge i64 %left, 8
  br i1 %wide, label %word, label %bytes

word:
  %a.i = getelementptr i8, ptr %a, i64 %i
  %b.i = getelementptr i8, ptr %b, i64 %i
  %va.i = load i64, ptr %a.i, align 1
  %vb.i = load i64, ptr %b.i, align 1
  %same = icmp eq i64 %va.i, %vb.i
  br i1 %same, label %equal, label %bytes

equal:
  %i.next = add i64 %i, 8
  br label %words

bytes:
  %j = phi i64 [ %i, %words ], [ %i, %word ], [ %j.next, %next ]
  %done = icmp eq i64 %j, %n
  br i1 %done, label %exit, label %byte

byte:
  %a.j = getelementptr i8, ptr %a, i64 %j
  %b.j = getelementptr i8, ptr %b, i64 %j
  %va.j = load i8, ptr %a.j, align 1
  %vb.j = load i8, ptr %b.j, align 1
  %same.j = icmp eq i8 %va.j, %vb.j
  br i1 %same.j, label %next, label %differ

next:
  %j.next = add i64 %j, 1
  br label %bytes

differ:
  %wa = zext i8 %va.j to i32
  %wb = zext i8 %vb.j to i32
  %difference = sub i32 %wa, %wb
  ret i32 %difference

exit:
  ret i32 0
}

define hidden i32 @bcmp(ptr %a, ptr %b, i64 %n) #0 section ".text.bcmp" {
  %r = call i32 @memcmp(ptr %a, ptr %b, i64 %n)
  ret i32 %r
}

attributes #0 = { nounwind "no-builtins" }
