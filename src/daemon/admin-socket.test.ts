import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { until } from '../../test/contract/until.ts'
import { recordingLog } from '../../test/recording-log.ts'
import { createLog } from '../log/logger.ts'
import { silentLog } from '../log/log.ts'
import { openAdminSocket } from './admin-socket.ts'
import type { TestContext } from 'node:test'
import type { Log } from '../log/log.ts'
import type { AdminAnswers } from './admin-socket.ts'

const MAIN = new URL('../main.ts', import.meta.url).pathname

type Options = {
  readonly args: readonly string[]
  readonly log?: Log
  /** Something that stands in the way of the socket, and goes when this resolves. */
  readonly inTheWay?: (path: string) => Promise<void>
}

/** Runs `vmhostd` beside a daemon that gives these answers; resolves with its output. */
async function vmhostd(
  t: TestContext,
  answers: Partial<AdminAnswers>,
  { args, log = silentLog, inTheWay }: Options,
): Promise<string> {
  // The path of a socket must be short.
  const directory = mkdtempSync('/run/vh-')
  const nothing = async () => undefined
  const path = join(directory, 'admin.sock')
  if (inTheWay !== undefined) mkdirSync(path)
  const listener = await openAdminSocket({
    runDirectory: directory,
    answers: { plan: nothing, console: nothing, ...answers },
    log,
    retryMs: 5,
  })
  t.after(async () => {
    await listener.close(0)
    rmSync(directory, { recursive: true })
  })
  await inTheWay?.(path)
  const config = join(directory, 'config.toml')
  writeFileSync(config, `run_directory = "${directory}"\n[host]\nid = "host-1"\n`)
  const argv = ['--no-warnings', MAIN, ...args, '--config', config]
  return (await promisify(execFile)(process.execPath, argv)).stdout
}

/** Output of a guest that sets the title of a terminal, writes to its clipboard, and clears it. */
const HOSTILE = '\u001B]0;root\u0007\u001B]52;c;cm0gLXJm\u0007\u001B[2Jlogin: \r\n\u009B31mred\u001B[0m\r\n'

test("a guest's output cannot steer the terminal that prints it", async (t) => {
  const console = async () => Buffer.from(HOSTILE)
  assert.equal(await vmhostd(t, { console }, { args: ['console', 'web-1'] }), 'login: \nred\n')
})

test('--raw prints what the guest wrote, byte for byte', async (t) => {
  const console = async () => Buffer.from(HOSTILE)
  assert.equal(await vmhostd(t, { console }, { args: ['console', 'web-1', '--raw'] }), HOSTILE)
})

test('a plan cannot steer the terminal either, and has no --raw', async (t) => {
  const plan = async () => 'error  said \u001B[2Jx\nsettled\n'
  assert.equal(await vmhostd(t, { plan }, { args: ['plan', 'web-1'] }), 'error  said x\nsettled\n')
  await assert.rejects(vmhostd(t, { plan }, { args: ['plan', 'web-1', '--raw'] }), /Unknown option '--raw'/)
})

test('the audit trail has the process that asked, and what it asked', async (t) => {
  const lines: string[] = []
  const log = createLog({ level: 'error', write: (line) => lines.push(line) })
  const plan = async () => 'settled\n'
  await vmhostd(t, { plan }, { args: ['plan', 'web-1'], log })
  await assert.rejects(vmhostd(t, {}, { args: ['console', 'web-2'], log }), /no VM web-2/)
  const [first, second] = lines.map((line): Record<string, unknown> => JSON.parse(line))
  const { action, vm_id, outcome, status, peer_uid, peer_pid, level } = first ?? {}
  assert.deepEqual(
    { level, action, vm_id, outcome, status, peer_uid },
    {
      level: 'audit',
      action: 'plan',
      vm_id: 'web-1',
      outcome: 'accepted',
      status: 200,
      peer_uid: process.getuid?.(),
    },
  )
  assert.equal(typeof peer_pid, 'number')
  assert.notEqual(peer_pid, process.pid)
  assert.deepEqual([second?.['vm_id'], second?.['outcome'], second?.['status']], ['web-2', 'refused', 404])
})

test('a question that the daemon cannot answer has failed in the audit trail, and was not refused', async (t) => {
  const lines: string[] = []
  const log = createLog({ level: 'error', write: (line) => lines.push(line) })
  const plan = () => Promise.reject(new Error('no unit found'))
  await assert.rejects(vmhostd(t, { plan }, { args: ['plan', 'web-1'], log }), /no unit found/)
  const [line] = lines.map((text): Record<string, unknown> => JSON.parse(text))
  assert.deepEqual([line?.['vm_id'], line?.['outcome'], line?.['status']], ['web-1', 'failed', 500])
})

test('a socket that cannot be made keeps nothing from starting, and is tried again', async (t) => {
  const { log, lines } = recordingLog()
  const about = (message: RegExp) => lines.filter((line) => message.test(line.message))
  const inTheWay = async (path: string): Promise<void> => {
    assert.deepEqual([about(/trying again/).length, about(/^listening$/).length], [1, 0])
    rmdirSync(path)
    await until(
      () => about(/^listening$/),
      (found) => found.length === 1,
    )
  }
  const plan = async () => 'settled\n'
  assert.equal(await vmhostd(t, { plan }, { args: ['plan', 'web-1'], log, inTheWay }), 'settled\n')
})
