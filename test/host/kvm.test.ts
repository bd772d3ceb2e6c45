import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { judgeKvm } from '../../src/core/monitor/choose-monitor.ts'
import { tryKvm } from '../../src/host/kvm/try-kvm.ts'

const opened = await tryKvm()
const skip = opened.opens ? false : opened.because

test('a loop runs to its end in a virtual machine, and leaves nothing open', { skip }, async () => {
  const before = readdirSync('/proc/self/fd').length
  const seen = await tryKvm()
  assert.ok(seen.opens && seen.runs, JSON.stringify(seen))
  assert.equal(readdirSync('/proc/self/fd').length, before)
})

test('an emulated processor is not taken for a fast one', { skip }, async (t) => {
  const judged = judgeKvm(await tryKvm())
  t.diagnostic(judged.because)
  // Another processor that runs this test says which of the two it is.
  assert.match(judged.because, judged.isFast ? /^KVM runs a guest at/ : /^KVM emulates the processor/)
})

test('a device that is not KVM runs no guest', async () => {
  const seen = await tryKvm('/dev/null', 'x64')
  assert.deepEqual(judgeKvm(seen), {
    isFast: false,
    because: 'KVM does not run a guest: KVM_GET_API_VERSION: ENOTTY',
  })
})

test('a device that is not there is said to be so', async () => {
  assert.match(judgeKvm(await tryKvm('/dev/no-such-device')).because, /^KVM does not open \(ENOENT\)/)
})
