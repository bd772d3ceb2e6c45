import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { chooseAccelerator } from './choose-accelerator.ts'
import type { AcceleratorQuestion } from './choose-accelerator.ts'

const INTEL = 'processor\t: 0\nflags\t\t: fpu vme de vmx pse\nvmx flags\t: vnmi\n'
const NESTED = 'processor\t: 0\nmodel name\t: svm vmx\nflags\t\t: fpu vme de pse\n'

function hostWith(t: TestContext, cpuinfo: string, kvm: boolean): AcceleratorQuestion {
  const directory = mkdtempSync(join(tmpdir(), 'accelerator-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const [cpuinfoPath, kvmPath] = [join(directory, 'cpuinfo'), join(directory, 'kvm')]
  writeFileSync(cpuinfoPath, cpuinfo)
  if (kvm) writeFileSync(kvmPath, '')
  return { architecture: 'x64', cpuinfoPath, kvmPath }
}

test('KVM needs the processor and the device', async (t) => {
  assert.equal((await chooseAccelerator(hostWith(t, INTEL, true))).accelerator, 'kvm')
  assert.equal((await chooseAccelerator(hostWith(t, INTEL.replace('vmx', 'svm'), true))).accelerator, 'kvm')
})

test('a device without processor support is not used', async (t) => {
  const { accelerator, because } = await chooseAccelerator(hostWith(t, NESTED, true))
  assert.equal(accelerator, 'tcg')
  assert.match(because, /neither vmx nor svm/)
})

test('a processor without the device uses emulation, and the reason names the device', async (t) => {
  const { accelerator, because } = await chooseAccelerator(hostWith(t, INTEL, false))
  assert.equal(accelerator, 'tcg')
  assert.match(because, /does not open \(ENOENT\)/)
})

test('on arm64 the device alone decides', async (t) => {
  assert.equal(
    (await chooseAccelerator({ ...hostWith(t, '', true), architecture: 'arm64' })).accelerator,
    'kvm',
  )
  assert.equal(
    (await chooseAccelerator({ ...hostWith(t, '', false), architecture: 'arm64' })).accelerator,
    'tcg',
  )
})

test('the choice of the operator is not checked', async (t) => {
  assert.equal((await chooseAccelerator({ ...hostWith(t, INTEL, true), pinned: 'tcg' })).accelerator, 'tcg')
  assert.equal((await chooseAccelerator({ ...hostWith(t, NESTED, false), pinned: 'kvm' })).accelerator, 'kvm')
})
