/** Attaches the program to the egress of a device, with libbpf's bpf_tc_* functions over netlink. */
import { ErrnoError, hasErrno } from '../ffi/errno-error.ts'
import { OUR_FILTER } from '../tap/tc-batch.ts'
import { call, callLibbpfInThread } from './libbpf.ts'

/** enum bpf_tc_attach_point and BPF_TC_F_REPLACE of bpf/libbpf.h. */
const EGRESS = 2
const REPLACE = 1

const HOOK = { bytes: 24, ifindexAt: 8, pointAt: 12 }
const OPTIONS = { bytes: 32, programFdAt: 8, flagsAt: 12, programIdAt: 16, handleAt: 20, priorityAt: 24 }

/** struct bpf_tc_hook. Like bpf_tc_opts it starts with its own size, from which libbpf knows its version. */
function hookOf(ifindex: number): Buffer {
  const hook = Buffer.alloc(HOOK.bytes)
  hook.writeBigUInt64LE(BigInt(HOOK.bytes))
  hook.writeInt32LE(ifindex, HOOK.ifindexAt)
  hook.writeInt32LE(EGRESS, HOOK.pointAt)
  return hook
}

/**
 * struct bpf_tc_opts. The program has the place on egress that our filter has on ingress. A bandwidth limit applies
 * after all filters.
 */
function optionsOf(): Buffer {
  const options = Buffer.alloc(OPTIONS.bytes)
  options.writeBigUInt64LE(BigInt(OPTIONS.bytes))
  options.writeUInt32LE(OUR_FILTER.handle, OPTIONS.handleAt)
  options.writeUInt32LE(OUR_FILTER.preference, OPTIONS.priorityAt)
  return options
}

/** Attaches a program, and replaces the one at our place. Throws ErrnoError; ENODEV if the device is gone. */
export async function attachToEgress(ifindex: number, programFd: number): Promise<void> {
  const hook = hookOf(ifindex)
  try {
    await callLibbpfInThread(
      `bpf_tc_hook_create on device ${ifindex}`,
      'int bpf_tc_hook_create(void *hook)',
      hook,
    )
  } catch (error) {
    if (!hasErrno(error, 'EEXIST')) throw error
  }
  const options = optionsOf()
  options.writeInt32LE(programFd, OPTIONS.programFdAt)
  options.writeUInt32LE(REPLACE, OPTIONS.flagsAt)
  await callLibbpfInThread(
    `bpf_tc_attach on device ${ifindex}`,
    'int bpf_tc_attach(const void *hook, void *options)',
    hook,
    options,
  )
}

/** Returns the id of the program at our place; undefined if there is no program or no device. Throws ErrnoError. */
export function egressProgramId(ifindex: number): number | undefined {
  const options = optionsOf()
  try {
    call(
      `bpf_tc_query on device ${ifindex}`,
      'int bpf_tc_query(const void *hook, void *options)',
      hookOf(ifindex),
      options,
    )
  } catch (error) {
    // EINVAL: the device has no such hook.
    if (error instanceof ErrnoError && hasErrno(error, 'ENOENT', 'EINVAL', 'ENODEV')) return undefined
    throw error
  }
  return options.readUInt32LE(OPTIONS.programIdAt)
}
