import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { checkSavable, endSave, resumeFromSave, saveGuest } from './qemu-saving.ts'
import { MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { QmpClient } from './qmp.ts'
import { scriptedQmp } from '../../../test/fakes/scripted-qmp.ts'
import type { ScriptedQmpOptions } from '../../../test/fakes/scripted-qmp.ts'

const never = new AbortController().signal

/** A save that waits before its end. */
const PAUSES = { 'query-migrate-capabilities': [{ capability: 'pause-before-switchover', state: true }] }
const PAUSED = { 'query-migrate': { status: 'pre-switchover' } }
/** A thread that no process has: it is above the largest id (proc_sys_kernel(5), pid_max). */
const NO_THREAD = { 'query-cpus-fast': [{ 'thread-id': 2 ** 22 + 1 }] }

type Answers = Readonly<Record<string, unknown>>

/** Connects to a monitor with the given answers. */
async function monitorOf(
  t: TestContext,
  answers: Answers,
  options: ScriptedQmpOptions = {},
): Promise<QmpClient> {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const path = join(directory, 'qmp.sock')
  await scriptedQmp(t, path, answers, options)
  const client = await QmpClient.connect(path)
  t.after(() => {
    client.close()
    rmSync(directory, { recursive: true })
  })
  return client
}

for (const [what, answers] of Object.entries<Answers>({
  'is being cancelled without end': { 'query-migrate': { status: 'cancelling' } },
  'is cancelled, and never let go of its guest': {
    'query-migrate': { status: 'cancelled' },
    'query-status': { status: 'finish-migrate' },
  },
  'writes on': { 'query-migrate': { status: 'active' }, ...PAUSES },
  'has a thread that does not sleep': {
    ...PAUSED,
    ...PAUSES,
    // The thread that asks is at work.
    'query-cpus-fast': [{ 'thread-id': process.pid }],
  },
})) {
  test(`a save that ${what} is a monitor that cannot be reached, not a bug`, async (t) => {
    const client = await monitorOf(t, { 'query-migrate-capabilities': [], ...answers })
    await assert.rejects(endSave(client, 50), (error: unknown) => {
      assert.ok(error instanceof MonitorLost, String(error))
      assert.equal(error.why, 'a save that does not end')
      return true
    })
  })
}

test('cancelling a save does not wait if none is under way', async (t) => {
  await endSave(await monitorOf(t, { 'query-status': { status: 'paused' } }))
})

for (const [what, answers] of Object.entries<Answers>({
  'of a save': { 'query-migrate': null },
  'of its guest': { 'query-status': { status: null } },
}))
  test(`a monitor that shows no state ${what} has refused, and is not a bug`, async (t) => {
    await assert.rejects(endSave(await monitorOf(t, answers)), MonitorRefusal)
  })

const MAPPED = { path: '/pool/memory', form: 'mapped' } as const
const COMPLETED = { 'query-migrate': { status: 'completed' }, 'query-status': { status: 'postmigrate' } }

test('a saved guest has its disk back before what was saved is flushed', async (t) => {
  const said: string[] = []
  const client = await monitorOf(t, COMPLETED, { onCommand: (command) => said.push(command) })
  await saveGuest(client, MAPPED, never)
  assert.deepEqual(said.slice(-2), ['query-status', 'blockdev-set-active'])
})

test('a save whose memory is written is continued, and the guest has its disk back', async (t) => {
  const answers: Record<string, unknown> = { ...COMPLETED, ...PAUSED }
  const said: string[] = []
  const onCommand = (command: string, args: unknown): void => {
    said.push(command)
    if (command !== 'migrate-continue') return
    assert.deepEqual(args, { state: 'pre-switchover' })
    Object.assign(answers, COMPLETED)
  }
  await saveGuest(await monitorOf(t, answers, { onCommand }), MAPPED, never)
  const after = ['query-migrate', 'migrate-continue', 'query-migrate', 'query-status', 'blockdev-set-active']
  assert.deepEqual(said.slice(-5), after)
})

test('an aborted save does not wait for its end, and is not continued', async (t) => {
  const abort = new AbortController()
  const answers: Record<string, unknown> = {}
  const said: string[] = []
  const onCommand = (command: string): void => {
    said.push(command)
    if (command !== 'migrate') return
    answers['query-migrate'] = { status: 'active' }
    abort.abort(new Error('on purpose'))
  }
  await assert.rejects(
    saveGuest(await monitorOf(t, answers, { onCommand }), MAPPED, abort.signal),
    /on purpose/,
  )
  assert.equal(said.at(-1), 'migrate')
})

test('a save that is under way ends where it waits before its end', async (t) => {
  const answers: Record<string, unknown> = { 'query-migrate': { status: 'active' }, ...PAUSES, ...NO_THREAD }
  answers['query-status'] = { status: 'paused' }
  const said: string[] = []
  let report = (): void => {}
  const onCommand = (command: string): void => {
    said.push(command)
    if (command === 'migrate-set-parameters') {
      Object.assign(answers, PAUSED)
      setImmediate(report)
    }
    if (command === 'migrate_cancel') answers['query-migrate'] = { status: 'cancelled' }
  }
  const client = await monitorOf(t, answers, {
    onCommand,
    onReady: (monitor) => (report = () => monitor.report('MIGRATION')),
  })
  await endSave(client)
  assert.deepEqual(said.slice(1, 4), [
    'query-migrate',
    'query-migrate-capabilities',
    'migrate-set-parameters',
  ])
  assert.deepEqual(said.slice(-4), ['query-cpus-fast', 'migrate_cancel', 'query-migrate', 'query-status'])
})

test('a save without a wait before its end, as an older daemon began it, is cancelled at once', async (t) => {
  const answers: Record<string, unknown> = {
    'query-migrate': { status: 'active' },
    'query-migrate-capabilities': [{ capability: 'pause-before-switchover', state: false }],
    'query-status': { status: 'paused' },
  }
  const said: string[] = []
  const onCommand = (command: string): void => {
    said.push(command)
    if (command === 'migrate_cancel') answers['query-migrate'] = { status: 'cancelled' }
  }
  await endSave(await monitorOf(t, answers, { onCommand }))
  assert.deepEqual(said.slice(2, 4), ['query-migrate-capabilities', 'migrate_cancel'])
})

test('a guest runs before its save has ended, and the save writes no more', async (t) => {
  const said: unknown[] = []
  const onCommand = (command: string, args: unknown): void => void said.push(command, args)
  assert.equal(await resumeFromSave(await monitorOf(t, PAUSES, { onCommand })), true)
  assert.deepEqual(said.slice(-4), [
    'migrate-set-parameters',
    { 'downtime-limit': 2_000_000 },
    'cont',
    undefined,
  ])
})

test('a guest does not run before its save has ended if that save does not wait, or is in its last step', async (t) => {
  const said: string[] = []
  const client = await monitorOf(
    t,
    { 'query-migrate-capabilities': [] },
    { onCommand: (command) => said.push(command) },
  )
  assert.equal(await resumeFromSave(client), false)
  assert.equal(said.at(-1), 'query-migrate-capabilities')
  const error = { class: 'GenericError', desc: 'Migration is not finalized yet' }
  assert.equal(await resumeFromSave(await monitorOf(t, { ...PAUSES, cont: { error } })), false)
})

test('one thread writes the memory of a saved guest, and the save waits before its end', async (t) => {
  const said: unknown[] = []
  const onCommand = (command: string, args: unknown): void => {
    if (command === 'migrate-set-capabilities') said.push(args)
  }
  await saveGuest(await monitorOf(t, COMPLETED, { onCommand }), MAPPED, never)
  const capabilities = [
    { capability: 'events', state: true },
    { capability: 'mapped-ram', state: true },
    { capability: 'multifd', state: true },
    { capability: 'pause-before-switchover', state: true },
  ]
  assert.deepEqual(said, [{ capabilities }])
})

test('no part of memory is left to the end of a save, in which QEMU hears no command', async (t) => {
  const said: unknown[] = []
  const onCommand = (command: string, args: unknown): void => {
    if (command === 'migrate-set-parameters') said.push(args)
  }
  await saveGuest(await monitorOf(t, COMPLETED, { onCommand }), MAPPED, never)
  const ofThreads = { 'multifd-channels': 1, 'zero-page-detection': 'legacy' }
  const speed = { 'max-bandwidth': 2 ** 40, 'downtime-limit': 0, 'avail-switchover-bandwidth': 2 ** 40 }
  assert.deepEqual(said, [{ ...speed, ...ofThreads }])
})

test('a save as a stream uses nothing that a QEMU before 9.0 does not know', async (t) => {
  const said: string[] = []
  const onCommand = (command: string, args: unknown): void => {
    if (command.startsWith('migrate-set')) said.push(JSON.stringify(args))
  }
  const client = await monitorOf(t, COMPLETED, { onCommand })
  await saveGuest(client, { path: '/pool/memory', form: 'stream' }, never)
  assert.equal(said.length, 2)
  assert.doesNotMatch(said.join(' '), /mapped-ram|channels|zero-page|avail-switchover/)
})

test('a save also succeeds with a QEMU that lacks the command to take its disk back', async (t) => {
  const error = { class: 'CommandNotFound', desc: 'The command blockdev-set-active has not been found' }
  const client = await monitorOf(t, { ...COMPLETED, 'blockdev-set-active': { error } })
  await saveGuest(client, MAPPED, never)
})

const refused = (words: RegExp) => (error: unknown) =>
  error instanceof MonitorRefusal && words.test(error.message)

test('a monitor that can save its guest returns its version', async (t) => {
  assert.equal(await checkSavable(await monitorOf(t, { 'query-balloon': { actual: 1 } }), never), '10.0.2')
})

test('a guest of an older QEMU or vmhostd is not saved, and the refusal says what helps', async (t) => {
  const older = await monitorOf(t, {}, { version: [8, 1, 5] })
  await assert.rejects(
    checkSavable(older, never),
    refused(/by QEMU 8\.1\.5, .*; stop the VM and start it, once$/),
  )
  const error = { class: 'DeviceNotActive', desc: 'No balloon device has been activated' }
  const bare = await monitorOf(t, { 'query-balloon': { error } })
  await assert.rejects(
    checkSavable(bare, never),
    refused(/by a version of vmhostd .*; stop the VM and start it, once$/),
  )
})
