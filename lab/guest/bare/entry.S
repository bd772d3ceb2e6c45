/*
 * From the loader to C: PVH entry, long mode, traps, and the wait for an interrupt.
 *
 * The PVH boot ABI (Xen, docs/misc/pvh.pandoc) starts the guest at the address in an ELF note: 32-bit protected mode,
 * no paging, flat segments, EBX = physical address of the start info.
 */
#define PHYS32_ENTRY 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
#define CODE64 0x08
#define DATA 0x10

  .section .note.pvh, "a", @note
  .balign 4
  .long 4, 8, PHYS32_ENTRY
  .asciz "Xen"
  .quad pvh_entry

  .text
  .code32
  .globl pvh_entry
pvh_entry:
  cli
  /* Intel SDM volume 3, 10.8.5 "Initializing IA-32e Mode": PAE, CR3, EFER.LME, CR0.PG, a far jump. */
  lgdt gdt_pointer
  movl %cr4, %eax
  orl $0x20, %eax
  movl %eax, %cr4
  movl $pml4, %eax
  movl %eax, %cr3
  movl $0xc0000080, %ecx
  rdmsr
  orl $0x100, %eax
  wrmsr
  movl %cr0, %eax
  orl $0x80000001, %eax
  movl %eax, %cr0
  ljmpl $CODE64, $in_long_mode

  .code64
in_long_mode:
  movl $DATA, %eax
  movl %eax, %ds
  movl %eax, %es
  movl %eax, %ss
  movl $stack_top, %esp
  movl %ebx, %edi
  call main
  jmp stop

  /* Stops for good. */
  .globl stop
stop:
  cli
1:
  hlt
  jmp 1b

/*
 * void wait_for_interrupt(void): called and left with interrupts off. They are on during the HLT alone, so a handler
 * never has to return to where it came from: it drops its frame and returns to the caller of this function. That spares
 * IRET, which an emulating KVM cannot run in long mode. STI takes effect after the next instruction (Intel SDM volume
 * 2, STI), so no interrupt is lost between the two.
 */
  .globl wait_for_interrupt
wait_for_interrupt:
  movq %rsp, waiting_at
  sti
  hlt
  cli
  ret

  .globl on_interrupt
on_interrupt:
  movq waiting_at, %rsp
  movl $0xfee000b0, %eax /* the local APIC's end of interrupt */
  movl $0, (%rax)
  ret

/* Traps are defects of this program: each reports itself on the console and ends the guest. */
  .macro trap number has_code
trap_\number:
  .if \has_code == 0
  pushq $0
  .endif
  pushq $\number
  jmp trapped
  .endm
  trap 0 0
  trap 6 0
  trap 8 1
  trap 13 1
  trap 14 1
trapped:
  popq %rdi
  popq %rsi
  popq %rdx
  movq %cr2, %rcx
  call report_trap
  jmp stop

  .section .rodata
  .balign 8
  .globl trap_entries
trap_entries: /* pairs of vector and address, to build the gates from */
  .quad 0, trap_0, 6, trap_6, 8, trap_8, 13, trap_13, 14, trap_14, -1

  .data
  .balign 8
gdt:
  .quad 0
  .quad 0x00af9b000000ffff /* code, 64 bits */
  .quad 0x00cf93000000ffff /* data */
gdt_pointer:
  .word . - gdt - 1
  .long gdt
  .balign 8
waiting_at:
  .quad 0

/*
 * Addresses are mapped to themselves with pages of 2 MiB: the first 4 GiB, and 1 GiB from 256 GiB, where Firecracker
 * puts the registers of its PCI devices. The tables are in the file, because code runs slowly in an emulating KVM.
 */
#define PRESENT_WRITABLE 0x03
#define LARGE 0x83
  .balign 4096
pml4:
  .quad pdpt + PRESENT_WRITABLE
  .fill 511, 8, 0
pdpt:
  .quad pd + PRESENT_WRITABLE, pd + 0x1000 + PRESENT_WRITABLE
  .quad pd + 0x2000 + PRESENT_WRITABLE, pd + 0x3000 + PRESENT_WRITABLE
  .fill 252, 8, 0
  .quad pd + 0x4000 + PRESENT_WRITABLE
  .fill 255, 8, 0
pd:
  .set page, 0
  .rept 2048
  .quad page + LARGE
  .set page, page + 0x200000
  .endr
  .set page, 0x4000000000
  .rept 512
  .quad page + LARGE
  .set page, page + 0x200000
  .endr

  .bss
  .balign 16
  .skip 16384
stack_top:
