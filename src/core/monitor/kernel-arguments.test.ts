import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { VmId } from '../ids.ts'
import { renderKernelArguments, knownTscKhz } from './kernel-arguments.ts'

const id = 'web-1' as VmId

test('a guest without network gets console, root and a reboot on panic', () => {
  assert.equal(
    renderKernelArguments({ id, architecture: 'x64', own: '' }),
    'console=ttyS0 root=/dev/vda rw panic=-1 reboot=t',
  )
})

test('an IPv4 address is given with the gateway of the routed link', () => {
  assert.equal(
    renderKernelArguments({ id, architecture: 'x64', ipv4Address: '192.0.2.10', own: '' }),
    'console=ttyS0 root=/dev/vda rw panic=-1 reboot=t ip=192.0.2.10::169.254.0.1:255.255.255.255:web-1::off',
  )
})

test("the VM's own arguments come last, so that they win", () => {
  const line = renderKernelArguments({
    id,
    architecture: 'x64',
    ipv4Address: '192.0.2.10',
    own: ' quiet root=/dev/vdc ',
  })
  assert.ok(line.endsWith(':off quiet root=/dev/vdc'))
})

test('an arm64 guest has its own serial port and reboots through firmware', () => {
  assert.equal(
    renderKernelArguments({ id, architecture: 'arm64', own: '' }),
    'console=ttyAMA0 root=/dev/vda rw panic=-1',
  )
})

test('a guest that shares the time stamp counter of the host gets its frequency', () => {
  assert.match(
    renderKernelArguments({ id, architecture: 'x64', tscKhz: 2596130, own: '' }),
    / tsc_early_khz=2596130 tsc=reliable$/,
  )
})

const cpuinfo = (flags: string): string =>
  `processor\t: 0\nmodel name\t: A CPU @ 2.60GHz\ncpu MHz\t\t: 2596.130\nflags\t\t: fpu tsc ${flags} sse\nbugs\t\t:\n\nprocessor\t: 1\n`

test('on a virtual host the frequency is known', () => {
  assert.equal(knownTscKhz(cpuinfo('constant_tsc tsc_known_freq')), 2596130)
})

test('a frequency that is measured, or that varies, is not taken for that of the counter', () => {
  for (const flags of ['constant_tsc', 'tsc_known_freq', 'constant_tsc tsc_known_freq aperfmperf']) {
    assert.equal(knownTscKhz(cpuinfo(flags)), undefined)
  }
})

test('a processor of another kind has no such counter', () => {
  assert.equal(knownTscKhz('processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n'), undefined)
})
