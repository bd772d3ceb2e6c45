import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeSavedState, judgeShape, whyNotRestorable } from './judge-saved-state.ts'
import { EMULATED } from '../monitor/processor.ts'
import type { VmId } from '../ids.ts'
import type { SavedSurroundings, GuestPlatform } from './judge-saved-state.ts'
import type { SavedMetadata } from './saved-metadata.ts'
import type { SavingMonitor } from '../world/saved-state.ts'

const qemu: SavingMonitor = {
  program: 'qemu-system-x86_64',
  version: '10.0.13',
  accelerator: 'kvm',
  form: 'stream',
}
const metadata: SavedMetadata = {
  vmId: 'web-1' as VmId,
  savedAtMs: 1_700_000_000_123,
  monitor: qemu,
  compute: { cpuMillicores: 1500, memoryMib: 256 },
  memory: { lengthBytes: 8_388_608, storedBytes: 4096, crc32: 7 },
  disk: { inode: 12n, sizeBytes: 1_048_576, modifiedNs: 1_700_000_000_123_456_789n },
}
const { disk } = metadata
const unchanged: SavedSurroundings = {
  vmId: metadata.vmId,
  monitor: qemu,
  memoryLengthBytes: metadata.memory.lengthBytes,
  disk,
}

/** Returns whether the guest may be restored; if not, the code and the reason. */
function judged(now: Partial<SavedSurroundings>, saved: Partial<SavingMonitor> = {}): string {
  const monitor = { ...qemu, ...saved }
  const state = judgeSavedState({ ...metadata, monitor }, { ...unchanged, ...now })
  if (state.kind !== 'unusable') return state.kind
  return `${state.code}: ${state.because.replace('the saved state is not restored: ', '')}`
}

test('a saved guest may be restored in the surroundings that it was saved in', () => {
  assert.equal(judged({}), 'present')
})

for (const [what, now, expected] of [
  ['its memory is gone', { memoryLengthBytes: undefined }, 'saved_state_corrupt: its memory is gone'],
  [
    'its memory was cut',
    { memoryLengthBytes: 8_388_607 },
    'saved_state_corrupt: its memory has 8388607 bytes and was saved with 8388608',
  ],
  ['it is of another VM', { vmId: 'web-2' as VmId }, 'saved_state_foreign: it is of VM web-1'],
  ['its disk is gone', { disk: undefined }, 'saved_state_foreign: its disk is gone'],
  [
    'its disk is another one',
    { disk: { ...disk, inode: 13n } },
    'saved_state_foreign: the disk is another one',
  ],
  [
    'its disk has grown',
    { disk: { ...disk, sizeBytes: 2_097_152 } },
    'saved_state_foreign: the disk was written after the guest was saved',
  ],
  [
    'its disk was written',
    { disk: { ...disk, modifiedNs: disk.modifiedNs + 1n } },
    'saved_state_foreign: the disk was written after the guest was saved',
  ],
] as const satisfies readonly (readonly [string, Partial<SavedSurroundings>, string])[]) {
  test(`a saved guest is not restored if ${what}`, () => {
    assert.equal(judged(now), expected)
  })
}

const TOO_NEW = /^saved_state_too_new: it was written by/
const FOREIGN = /^saved_state_foreign: it was written by/
const PRESENT = /^present$/

for (const [what, saved, here, expected] of [
  ['another program', {}, { program: 'firecracker' }, FOREIGN],
  ['another accelerator', {}, { accelerator: 'tcg' }, FOREIGN],
  ['a newer version', {}, { version: '10.1' }, PRESENT],
  ['the same version with more numbers', { version: '10.0' }, { version: '10.0.0' }, PRESENT],
  ['an older version', {}, { version: '10.0.12' }, TOO_NEW],
  ['an older version with fewer numbers', {}, { version: '10.0' }, TOO_NEW],
  ['a version that is older as a number, and later as a text', {}, { version: '9.2.0' }, TOO_NEW],
  ['no format, though it was saved in one', { format: '10.0.0' }, {}, TOO_NEW],
  ['a format, though it was saved in none', {}, { format: '10.0.0' }, TOO_NEW],
  [
    'a newer minor format and an older version',
    { format: '10.0.0' },
    { format: '10.1.0', version: '9' },
    PRESENT,
  ],
  ['an older minor format', { format: '10.1.0' }, { format: '10.0.0' }, TOO_NEW],
  ['a newer major format', { format: '9.0.0' }, { format: '10.0.0' }, TOO_NEW],
] as const satisfies readonly (readonly [string, Partial<SavingMonitor>, Partial<SavingMonitor>, RegExp])[]) {
  const may = expected === PRESENT ? 'may be' : 'is not'
  test(`a saved guest ${may} restored by a monitor of ${what}`, () => {
    assert.match(judged({ monitor: { ...qemu, ...here } }, saved), expected)
  })
}

test('a saved guest that cannot be restored is judged by that, and not by its shape', () => {
  const unusable = { kind: 'unusable', code: 'saved_state_corrupt', because: 'its memory is gone' } as const
  const compute = { cpuMillicores: 1000, memoryMib: 64, sleepAfterIdleSeconds: 0 }
  assert.equal(judgeShape(unusable, compute), unusable)
})

const program = 'qemu-system-x86_64'
const platform = (
  accelerator: string,
  processor: GuestPlatform['processor'],
  version = '10.0.2',
): GuestPlatform => ({
  monitor: { program, version, accelerator, form: 'mapped' },
  processor,
})
const amd = (...features: string[]): GuestPlatform => platform('kvm', { vendor: 'AuthenticAMD', features })
const intel = platform('kvm', { vendor: 'GenuineIntel', features: ['fpu'] })
const emulated = (version?: string): GuestPlatform => platform('tcg', EMULATED, version)
const arm: GuestPlatform = {
  ...emulated(),
  monitor: { ...emulated().monitor, program: 'qemu-system-aarch64' },
}

const firecracker = (format: string, version = '1.16.1'): GuestPlatform => ({
  monitor: { program: 'firecracker', version, accelerator: 'kvm', format, form: 'mapped' },
  processor: EMULATED,
})

for (const [what, there, here, expected] of [
  ['an older minor format', firecracker('10.0.0'), firecracker('10.1.0'), undefined],
  ['the same format of a newer monitor', firecracker('10.0.0', '1.17.0'), firecracker('10.0.0'), undefined],
  [
    'a newer minor format',
    firecracker('10.1.0'),
    firecracker('10.0.0'),
    'its monitor is firecracker 1.16.1 with kvm in format 10.1.0, and here is 1.16.1, which reads 10.0.0',
  ],
  [
    'another major format',
    firecracker('9.0.0', '1.15.0'),
    firecracker('10.0.0'),
    'its monitor is firecracker 1.15.0 with kvm in format 9.0.0, and here is 1.16.1, which reads 10.0.0',
  ],
  ['the same processor', amd('fpu', 'avx2'), amd('avx2', 'fpu'), undefined],
  ['a processor with more features', amd('fpu'), amd('fpu', 'avx2'), undefined],
  ['a newer monitor', emulated('9.2'), emulated('10.0.2'), undefined],
  [
    'the other form of a file',
    { ...emulated(), monitor: { ...emulated().monitor, form: 'stream' } },
    emulated(),
    undefined,
  ],
  [
    'an older monitor',
    emulated('10.1.0'),
    emulated('10.0.2'),
    'its monitor is qemu-system-x86_64 10.1.0 with tcg, and here is 10.0.2',
  ],
  [
    'another program',
    emulated(),
    arm,
    'its monitor is qemu-system-x86_64 10.0.2 with tcg, and here is qemu-system-aarch64 10.0.2 with tcg',
  ],
  [
    'another accelerator',
    amd(),
    emulated(),
    'its monitor is qemu-system-x86_64 10.0.2 with kvm, and here is qemu-system-x86_64 10.0.2 with tcg',
  ],
  ['another vendor', amd('fpu'), intel, 'its processor is of vendor AuthenticAMD, and here is GenuineIntel'],
  [
    'a processor without two features',
    amd('fpu', 'avx2', 'sse'),
    amd('fpu'),
    'its processor has features that this one lacks: avx2, sse',
  ],
  [
    'a processor without many features',
    amd('a', 'b', 'c', 'd', 'e', 'f'),
    amd(),
    'its processor has features that this one lacks: a, b, c, d and 2 more',
  ],
] as const) {
  test(`${what} here: ${expected ?? 'the memory can be restored'}`, () => {
    assert.equal(whyNotRestorable(there.monitor, there.processor, here), expected)
  })
}
