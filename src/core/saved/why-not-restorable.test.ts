import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EMULATED } from '../monitor/processor.ts'
import { whyNotRestorable } from './why-not-restorable.ts'
import type { GuestPlatform } from './why-not-restorable.ts'

const qemu = 'qemu-system-x86_64'
const platform = (
  accelerator: string,
  processor: GuestPlatform['processor'],
  version = '10.0.2',
): GuestPlatform => ({
  monitor: { program: qemu, version, accelerator, form: 'mapped' },
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
