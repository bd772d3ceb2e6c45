import { closeSync, openSync } from 'node:fs'
import { ErrnoError } from '../ffi/errno-error.ts'
import { callInThread, errno, library } from '../ffi/koffi.ts'
import { mapFile } from '../ffi/map-file.ts'
import type { FileMapping } from '../ffi/map-file.ts'

/** Requests of linux/kvm.h on x86-64. */
const KVM_GET_API_VERSION = 0xae00
const KVM_CREATE_VM = 0xae01
const KVM_GET_VCPU_MMAP_SIZE = 0xae04
const KVM_CREATE_VCPU = 0xae41
const KVM_SET_USER_MEMORY_REGION = 0x4020_ae46
const KVM_RUN = 0xae80
const KVM_SET_REGS = 0x4090_ae82
const KVM_GET_SREGS = 0x8138_ae83
const KVM_SET_SREGS = 0x4138_ae84
const KVM_API_VERSION = 12
const KVM_EXIT_HLT = 5
const KVM_EXIT_INTR = 10

/** Sizes and offsets in its structures. `cs` is the first segment of kvm_sregs. */
const KVM_REGS_BYTES = 0x90
const RIP_AT = 128
const RFLAGS_AT = 136
const KVM_SREGS_BYTES = 0x138
const CS_BASE_AT = 0
const CS_SELECTOR_AT = 12
const EXIT_REASON_AT = 8

const PAGE_BYTES = 4096
/** The guest's address of its only page. */
const PAGE_AT = 0x1000

const ROUNDS = 2000
/** In real mode: mov cx, ROUNDS; again: dec cx; jnz again; hlt. */
const LOOP = [0xb9, ROUNDS & 0xff, ROUNDS >> 8, 0x49, 0x75, 0xfd, 0xf4]
/** Instructions that it runs. The number bounds its time: some 4 ms if each is emulated, microseconds if not. */
export const LOOP_INSTRUCTIONS = 2 * ROUNDS + 2

const libc = library('libc.so.6')
const ioctl = libc.func('int ioctl(int fd, unsigned long request, void *argument)')
const ioctlNumber = libc.func('int ioctl(int fd, unsigned long request, unsigned long argument)')

/** A machine with one vCPU and one page, which runs a counted loop and halts. */
export class LoopMachine {
  readonly #closers: (() => void)[] = []
  readonly #vcpu: number
  readonly #run: FileMapping

  /** @param kvm descriptor of /dev/kvm. Throws ErrnoError. */
  constructor(kvm: number) {
    try {
      if (call(kvm, KVM_GET_API_VERSION, 'KVM_GET_API_VERSION') !== KVM_API_VERSION)
        throw new ErrnoError('KVM_GET_API_VERSION', 95)
      const vm = this.#keep(call(kvm, KVM_CREATE_VM, 'KVM_CREATE_VM'))
      this.#addPage(vm)
      this.#vcpu = this.#keep(call(vm, KVM_CREATE_VCPU, 'KVM_CREATE_VCPU'))
      this.#run = this.#map(this.#vcpu, call(kvm, KVM_GET_VCPU_MMAP_SIZE, 'KVM_GET_VCPU_MMAP_SIZE'))
      this.#point()
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Runs the loop on another thread. Resolves to `halted`, or to the exit in words. */
  async run(): Promise<string> {
    for (;;) {
      const status = await callInThread(ioctlNumber, this.#vcpu, KVM_RUN, 0)
      const reason = new DataView(this.#run.view()).getUint32(EXIT_REASON_AT, true)
      // A signal to that thread interrupts the loop; it goes on where it was.
      if (status !== 0 && reason === KVM_EXIT_INTR) continue
      if (status !== 0) return 'a refusal of KVM_RUN'
      return reason === KVM_EXIT_HLT ? 'halted' : `exit reason ${reason}`
    }
  }

  /** Removes the machine, which must not run. */
  close(): void {
    for (const close of this.#closers.toReversed()) close()
    this.#closers.length = 0
  }

  #keep(fd: number): number {
    this.#closers.push(() => closeSync(fd))
    return fd
  }

  #map(fd: number, length: number): FileMapping {
    const mapping = mapFile(fd, length)
    this.#closers.push(() => mapping.unmap())
    return mapping
  }

  /** Gives the machine its memory, with the loop at its start. */
  #addPage(vm: number): void {
    const page = this.#map(this.#keep(openSync('/dev/zero', 'r+')), PAGE_BYTES)
    new Uint8Array(page.view()).set(LOOP)
    const region = Buffer.alloc(32)
    region.writeBigUInt64LE(BigInt(PAGE_AT), 8)
    region.writeBigUInt64LE(BigInt(PAGE_BYTES), 16)
    region.writeBigUInt64LE(page.address, 24)
    callWith(vm, KVM_SET_USER_MEMORY_REGION, { argument: region, name: 'KVM_SET_USER_MEMORY_REGION' })
  }

  /** Points the vCPU, which starts in real mode, at the loop. */
  #point(): void {
    const segments = Buffer.alloc(KVM_SREGS_BYTES)
    callWith(this.#vcpu, KVM_GET_SREGS, { argument: segments, name: 'KVM_GET_SREGS' })
    segments.writeBigUInt64LE(0n, CS_BASE_AT)
    segments.writeUInt16LE(0, CS_SELECTOR_AT)
    callWith(this.#vcpu, KVM_SET_SREGS, { argument: segments, name: 'KVM_SET_SREGS' })
    const registers = Buffer.alloc(KVM_REGS_BYTES)
    registers.writeBigUInt64LE(BigInt(PAGE_AT), RIP_AT)
    // Bit 1 of the flags is always set.
    registers.writeBigUInt64LE(2n, RFLAGS_AT)
    callWith(this.#vcpu, KVM_SET_REGS, { argument: registers, name: 'KVM_SET_REGS' })
  }
}

function call(fd: number, request: number, name: string): number {
  const result = ioctlNumber(fd, request, 0) as number
  if (result < 0) throw new ErrnoError(name, errno())
  return result
}

type Structure = { readonly argument: Buffer; readonly name: string }

function callWith(fd: number, request: number, { argument, name }: Structure): void {
  if ((ioctl(fd, request, argument) as number) < 0) throw new ErrnoError(name, errno())
}
