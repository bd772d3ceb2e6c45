import assert from 'node:assert/strict'
import { constants, endianness } from 'node:os'
import { errno, koffi, library } from '../src/host/ffi/koffi.ts'

/** Numbers of system calls (asm/unistd_64.h; asm-generic/unistd.h on arm64, where libc makes a link by linkat). */
const CALLS = { x64: { socket: 41, link: 86 }, arm64: { socket: 198, link: 37 } } as const

// linux/prctl.h, linux/seccomp.h.
const PR_SET_SECCOMP = 22
const PR_SET_NO_NEW_PRIVS = 38
const SECCOMP_MODE_FILTER = 2
const SECCOMP_RET_ERRNO = 0x00050000
const SECCOMP_RET_ALLOW = 0x7fff0000

// Of struct seccomp_data: the number of the call, and the lower half of its first argument.
const NUMBER_AT = 0
const FIRST_ARGUMENT_AT = 16

// linux/bpf_common.h.
const LOAD_WORD = 0x20
const JUMP_IF_EQUAL = 0x15
const RETURN = 0x06

/**
 * Lets the kernel refuse a system call of this thread for the rest of the process, as a kernel or a file system without
 * the feature does. With `first`, only calls with this first argument.
 */
export function refuseCall(
  name: 'socket' | 'link',
  code: keyof typeof constants.errno,
  first?: number,
): void {
  assert.equal(endianness(), 'LE')
  const number = CALLS[process.arch === 'arm64' ? 'arm64' : 'x64'][name]
  const filter = [
    instruction(LOAD_WORD, NUMBER_AT),
    instruction(JUMP_IF_EQUAL, number, { otherwise: first === undefined ? 1 : 3 }),
    ...(first === undefined
      ? []
      : [instruction(LOAD_WORD, FIRST_ARGUMENT_AT), instruction(JUMP_IF_EQUAL, first, { otherwise: 1 })]),
    instruction(RETURN, SECCOMP_RET_ERRNO | constants.errno[code]),
    instruction(RETURN, SECCOMP_RET_ALLOW),
  ]
  koffi.struct('sock_fprog', { len: 'unsigned short', filter: 'void *' })
  const prctl = library('libc.so.6').func(
    'int prctl(int option, unsigned long a, sock_fprog *program, long c, long d)',
  )
  assert.equal(prctl(PR_SET_NO_NEW_PRIVS, 1, null, 0, 0), 0, `errno ${errno()}`)
  const program = { len: filter.length, filter: Buffer.concat(filter) }
  assert.equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0), 0, `errno ${errno()}`)
}

/**
 * Returns a struct sock_filter. `otherwise`: how many instructions a jump passes over if its condition does not hold.
 */
function instruction(code: number, operand: number, { otherwise = 0 } = {}): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt16LE(code, 0)
  bytes.writeUInt8(otherwise, 3)
  bytes.writeUInt32LE(operand, 4)
  return bytes
}
