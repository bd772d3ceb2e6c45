import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { checkSavable, giveUpSave, saveGuest } from './qemu-saving.ts'
import { MonitorLost, MonitorRefusal } from '../monitors/monitor-error.ts'
import { QmpClient } from './qmp.ts'
import { scriptedQmp } from '../../../test/fakes/scripted-qmp.ts'
import type { ScriptedQmpOptions } from '../../../test/fakes/scripted-qmp.ts'

const never = new AbortController().signal

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
})) {
  test(`a save that ${what} is a monitor that cannot be reached, not a bug`, async (t) => {
    const client = await monitorOf(t, answers)
    await assert.rejects(giveUpSave(client, 50), (error: unknown) => {
      assert.ok(error instanceof MonitorLost, String(error))
      assert.equal(error.why, 'a save that does not end')
      return true
    })
  })
}

test('cancelling a save does not wait if none is under way', async (t) => {
  await giveUpSave(await monitorOf(t, { 'query-status': { status: 'paused' } }))
})

for (const [what, answers] of Object.entries<Answers>({
  'of a save': { 'query-migrate': null },
  'of its guest': { 'query-status': { status: null } },
}))
  test(`a monitor that shows no state ${what} has refused, and is not a bug`, async (t) => {
    await assert.rejects(giveUpSave(await monitorOf(t, answers)), MonitorRefusal)
  })

const MAPPED = { path: '/pool/memory', form: 'mapped' } as const
const COMPLETED = { 'query-migrate': { status: 'completed' }, 'query-status': { status: 'postmigrate' } }

test('a saved guest has its disk back before what was saved is flushed', async (t) => {
  const said: string[] = []
  const client = await monitorOf(t, COMPLETED, { onCommand: (command) => said.push(command) })
  await saveGuest(client, MAPPED, never)
  assert.deepEqual(said.slice(-2), ['query-status', 'blockdev-set-active'])
})

test('a save that is aborted is cancelled, so that the guest can be resumed', async (t) => {
  const abort = new AbortController()
  const answers: Record<string, unknown> = { 'query-status': { status: 'paused' } }
  const said: string[] = []
  const onCommand = (command: string): void => {
    said.push(command)
    if (command === 'migrate') {
      answers['query-migrate'] = { status: 'active' }
      abort.abort(new Error('on purpose'))
    }
    if (command === 'migrate_cancel') answers['query-migrate'] = { status: 'cancelled' }
  }
  await assert.rejects(
    saveGuest(await monitorOf(t, answers, { onCommand }), MAPPED, abort.signal),
    /on purpose/,
  )
  assert.deepEqual(said.slice(-3), ['migrate_cancel', 'query-migrate', 'query-status'])
})

test('a monitor that restored its guest with several threads saves it with one', async (t) => {
  const said: unknown[] = []
  const onCommand = (command: string, args: unknown): void => {
    if (command === 'migrate-set-capabilities') said.push(args)
  }
  await saveGuest(await monitorOf(t, COMPLETED, { onCommand }), MAPPED, never)
  const capabilities = [
    { capability: 'events', state: true },
    { capability: 'mapped-ram', state: true },
    { capability: 'multifd', state: false },
  ]
  assert.deepEqual(said, [{ capabilities }])
})

test('no part of memory is left to the end of a save, in which QEMU hears no command', async (t) => {
  const said: unknown[] = []
  const onCommand = (command: string, args: unknown): void => {
    if (command === 'migrate-set-parameters') said.push(args)
  }
  await saveGuest(await monitorOf(t, COMPLETED, { onCommand }), MAPPED, never)
  assert.deepEqual(said, [{ 'max-bandwidth': 2 ** 40, 'downtime-limit': 0 }])
})

test('a save as a stream uses nothing that a QEMU before 9.0 does not know', async (t) => {
  const said: string[] = []
  const onCommand = (command: string, args: unknown): void => {
    if (command === 'migrate-set-capabilities') said.push(JSON.stringify(args))
  }
  const client = await monitorOf(t, COMPLETED, { onCommand })
  await saveGuest(client, { path: '/pool/memory', form: 'stream' }, never)
  assert.equal(said.length, 1)
  assert.doesNotMatch(said[0] ?? '', /mapped-ram/)
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
