# Stand-ins for three functions of the vDSO: the true time by system call, then shifted: wall clocks by what `banks`
# holds, monotonic clocks by `standstill`, which is 0 or negative and only ever falls.
# vdso.py carries the bytes of this file; a test assembles it and compares.
# Only registers that a C call may destroy are touched.

        .equ    BANK_BYTES, 136         # count, then four of (base, step, ppm, strobe)

clock_gettime:                          # (edi: clock, rsi: timespec)
        cmp     $1, %edi                # CLOCK_MONOTONIC
        je      mono
        cmp     $4, %edi                # CLOCK_MONOTONIC_RAW
        je      mono
        cmp     $6, %edi                # CLOCK_MONOTONIC_COARSE
        je      mono
        mov     $228, %eax
        syscall
        test    %eax, %eax
        jnz     done
        test    %edi, %edi              # CLOCK_REALTIME
        jz      wall
        cmp     $5, %edi                # CLOCK_REALTIME_COARSE
        je      wall
        cmp     $11, %edi               # CLOCK_TAI, which follows the wall clock
        jne     done
wall:   mov     $1, %r10d
        jmp     shift
done:   ret

# A thread that was stopped in here would else add the new shift to a time of before, or the old one to a time of after.
mono:   mov     standstill(%rip), %r10
        mov     $228, %eax
        syscall
        test    %eax, %eax
        jnz     done
        cmp     %r10, standstill(%rip)
        jne     mono
        imul    $1000000000, (%rsi), %rax
        add     8(%rsi), %rax
        add     %r10, %rax
        xor     %edx, %edx
        divq    billion(%rip)
        mov     %rax, (%rsi)
        mov     %rdx, 8(%rsi)
        xor     %eax, %eax
        ret

gettimeofday:                           # (rdi: timeval, rsi: timezone)
        mov     $96, %eax
        syscall
        test    %eax, %eax
        jnz     done
        test    %rdi, %rdi
        jz      done
        mov     %rdi, %rsi
        mov     $1000, %r10d

# rsi: seconds and parts of a second; r10: nanoseconds per part. Kept: rdi true time, rcx shifted
# time, r8 entries left, r9 entry less 8, r11 generation that is read.
shift:  imul    $1000000000, (%rsi), %rdi
        mov     8(%rsi), %rax
        imul    %r10, %rax
        add     %rax, %rdi
again:  movzbl  generation(%rip), %r11d
        mov     %r11d, %ecx
        and     $1, %ecx
        imul    $BANK_BYTES, %ecx, %ecx
        lea     banks(%rip), %r9
        add     %rcx, %r9
        mov     (%r9), %r8
        mov     %rdi, %rcx
        jmp     more
entry:  mov     %rdi, %rax
        sub     8(%r9), %rax
        imulq   24(%r9)
        idivq   million(%rip)
        add     %rax, %rcx
        cmpq    $0, 32(%r9)
        je      step
        mov     %rdi, %rax
        sub     8(%r9), %rax
        xor     %edx, %edx
        divq    32(%r9)
        test    $1, %al                 # every other strobe period shows the true time
        jnz     next
step:   add     16(%r9), %rcx
next:   add     $32, %r9
        dec     %r8
more:   test    %r8, %r8
        jnz     entry
        cmp     %r11b, generation(%rip) # a bank is rewritten only after the other one took over
        jne     again
        mov     %rcx, %rax
        xor     %edx, %edx
        divq    billion(%rip)
        mov     %rax, (%rsi)
        mov     %rdx, %rax
        xor     %edx, %edx
        div     %r10
        mov     %rax, 8(%rsi)
        xor     %eax, %eax
        ret

time:                                   # (rdi: where to store the seconds too, or null)
        push    %rdi
        sub     $16, %rsp
        mov     %rsp, %rsi
        mov     $5, %edi
        call    clock_gettime
        mov     (%rsp), %rax
        add     $16, %rsp
        pop     %rdi
        test    %rdi, %rdi
        jz      seconds
        mov     %rax, (%rdi)
seconds:
        ret

        .balign 8
million:
        .quad   1000000
billion:
        .quad   1000000000
generation:
        .quad   0
standstill:
        .quad   0
banks:                                  # two of BANK_BYTES each, written by vdso.py
