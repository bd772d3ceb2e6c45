import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { onceListening } from './once-listening.ts'
import { QmpLost } from './qmp-error.ts'

const never = new AbortController().signal

function directoryOf(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** Makes a connection that fails with each of the reasons in turn, and then succeeds. */
function connection(...reasons: string[]): { connect: () => Promise<string>; tried: () => number } {
  let tries = 0
  return {
    tried: () => tries,
    connect: async () => {
      const why = reasons[tries++]
      if (why !== undefined) throw new QmpLost(why)
      return 'connected'
    },
  }
}

test('a socket that does not exist is tried again when its directory changes, and not before', async (t) => {
  const path = join(directoryOf(t), 'qmp.sock')
  const { connect, tried } = connection('ENOENT', 'ECONNREFUSED', 'ECONNREFUSED')
  const connecting = onceListening(path, connect, never)
  await new Promise(setImmediate)
  assert.equal(tried(), 1)
  const server = createServer().listen(path)
  t.after(() => server.close())
  assert.equal(await connecting, 'connected')
  assert.equal(tried(), 4)
})

test('a directory that does not exist, or is removed, ends the wait', async (t) => {
  const directory = directoryOf(t)
  const path = join(directory, 'qmp.sock')
  const { connect } = connection('ENOENT', 'ENOENT', 'ENOENT')
  const connecting = onceListening(path, connect, never)
  rmSync(directory, { recursive: true })
  await assert.rejects(connecting, { why: 'ENOENT' })
  await assert.rejects(onceListening(path, connect, never), { why: 'ENOENT' })
})

test('a monitor that does not greet is not asked again, and the wait can be aborted', async (t) => {
  const path = join(directoryOf(t), 'qmp.sock')
  await assert.rejects(onceListening(path, connection('no greeting').connect, never), { why: 'no greeting' })
  const aborting = new AbortController()
  const waiting = onceListening(path, connection('ENOENT').connect, aborting.signal)
  aborting.abort(new Error('the VM is being deleted'))
  await assert.rejects(waiting, /being deleted/)
})
