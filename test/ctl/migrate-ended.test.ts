/** A destination that has given the guest back says why, although its source hears of it first. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { abortable } from '../../src/lib/abortable.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { TwoHosts, WEB } from './support/two-hosts.ts'
import type { TestContext } from 'node:test'
import type { Generation } from '../../src/core/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** A move of which the source has just heard that the destination gave it up. `patience`: that of the program. */
async function abortedStage(t: TestContext, patience: 'none' | 'endless') {
  const hosts = await TwoHosts.start(t, pki)
  const { result } = await hosts.begin('', {
    shell: {
      sleep: (ms, signal) => {
        if (ms !== limits.ctlMigrationEndMs) return sleep(ms, undefined, { signal })
        return patience === 'none' ? Promise.resolve() : abortable(new Promise<never>(() => {}), signal)
      },
    },
  })
  hosts.departs({ stage: 'withdrawn', because: 'aborted' })
  await eventually(() => hosts.source.host.waits.size === 0)
  return { hosts, result }
}

const STAYS = /^vmhostctl: web-1 stays at 127\.0\.0\.1: the migration has ended \(aborted\)\n/m

test('a host that was drained says so', async (t) => {
  const { hosts, result } = await abortedStage(t, 'endless')
  hosts.arrives({ stage: 'refused', because: 'drained' })
  const fault = {
    code: 'migration_refused',
    step: 'arrival.pull',
    message: 'web-1 does not come here: this host was drained',
    generation: 1 as Generation,
    sinceMs: 1,
    attempt: 1,
    nextAttemptAtMs: 2,
  } as const
  const observed = { state: 'failed', sinceMs: 1, fault } as const
  hosts.destination.host.store.vms.recordProgress(WEB, { observed, nowMs: 1 })
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, STAYS)
  assert.match(err, /127\.0\.0\.1 says: .*this host was drained/)
})

test('a record that was deleted at the destination is named', async (t) => {
  const { hosts, result } = await abortedStage(t, 'endless')
  await hosts.remove(hosts.destination)
  const { err } = await result
  assert.match(err, STAYS)
  assert.match(err, /\n {2}its record at 127\.0\.0\.1 (was|is being) deleted\n/)
})

test('a destination that says nothing is not waited for without end', async (t) => {
  const { result } = await abortedStage(t, 'none')
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, STAYS)
  assert.doesNotMatch(err, / says: /)
})
