import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { chooseMonitor, judgeKvm } from './choose-monitor.ts'
import type { MonitorQuestion } from './choose-monitor.ts'

const EMULATED = 1_400_000
const PROCESSOR = 1_000_000_000
const atSpeed = (instructionsPerSecond: number) =>
  ({ opens: true, runs: true, instructionsPerSecond }) as const
const CLOSED = { opens: false, because: 'KVM does not open (ENOENT)' } as const

const choose = (changes: Partial<MonitorQuestion> = {}) =>
  chooseMonitor({
    kind: 'auto',
    accelerator: 'auto',
    isExecutable: { qemu: true, firecracker: true },
    programs: { qemu: '/usr/bin/qemu', firecracker: '/usr/bin/firecracker' },
    kvm: atSpeed(PROCESSOR),
    ...changes,
  })

test('a KVM that emulates the processor is not fast, and one that runs guests on it is', () => {
  assert.equal(judgeKvm(atSpeed(EMULATED)).isFast, false)
  assert.equal(judgeKvm(atSpeed(limits.kvmInstructionsPerSecondMin - 1)).isFast, false)
  assert.equal(judgeKvm(atSpeed(limits.kvmInstructionsPerSecondMin)).isFast, true)
  assert.match(judgeKvm(atSpeed(EMULATED)).because, /only 1\.4 million instructions per second$/)
})

test('a KVM that cannot be measured is taken, and one that does not open or run a guest is not', () => {
  assert.equal(judgeKvm({ opens: true, runs: true }).isFast, true)
  assert.equal(judgeKvm({ opens: true, runs: false, because: 'KVM_CREATE_VM: ENOMEM' }).isFast, false)
  assert.equal(judgeKvm(CLOSED).isFast, false)
})

test('with a fast KVM, new VMs get Firecracker if it is installed, and else QEMU with KVM', () => {
  assert.equal(choose().default, 'firecracker')
  const without = choose({ isExecutable: { qemu: true, firecracker: false } })
  assert.deepEqual([without.default, without.kinds.qemu.accelerator], ['qemu', 'kvm'])
  assert.equal(without.kinds.firecracker.isOffered, false)
  assert.match(without.because, /: firecracker is not a program that can be run/)
})

test('with a slow KVM, new VMs get emulated QEMU, and Firecracker is offered to those who ask', () => {
  const { default: chosen, kinds, because } = choose({ kvm: atSpeed(EMULATED) })
  assert.deepEqual([chosen, kinds.qemu.accelerator, kinds.firecracker.isOffered], ['qemu', 'tcg', true])
  assert.match(because, /KVM emulates the processor/)
})

test('a Firecracker that cannot be used is not offered, and the host says why', () => {
  const { default: chosen, kinds, because } = choose({ firecrackerRefusal: 'it is 1.14.0' })
  assert.deepEqual([chosen, kinds.firecracker.isOffered], ['qemu', false])
  assert.equal(kinds.firecracker.because, 'it is 1.14.0')
  assert.match(because, /it is 1\.14\.0$/)
})

test('without KVM, Firecracker is not offered', () => {
  const { default: chosen, kinds } = choose({ kvm: CLOSED })
  assert.deepEqual([chosen, kinds.firecracker.isOffered, kinds.qemu.isOffered], ['qemu', false, true])
  assert.match(kinds.firecracker.because, /ENOENT/)
})

test('the choice of the operator stands', () => {
  assert.equal(choose({ kind: 'qemu' }).default, 'qemu')
  assert.equal(choose({ kind: 'firecracker', kvm: CLOSED }).default, 'firecracker')
  assert.equal(choose({ accelerator: 'kvm', kvm: CLOSED }).kinds.qemu.accelerator, 'kvm')
  assert.equal(choose({ accelerator: 'tcg' }).kinds.qemu.accelerator, 'tcg')
})
