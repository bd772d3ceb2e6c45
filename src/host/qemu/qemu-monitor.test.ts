import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { qmpSocketPath } from '../../core/monitor/qemu-command.ts'
import { EMULATED, processorOf } from '../../core/monitor/processor.ts'
import { given } from '../../lib/given.ts'
import { errorChain } from '../../log/error-chain.ts'
import { silentLog } from '../../log/log.ts'
import { restoredOf } from '../../../test/fakes/machine.ts'
import { scriptedQmp } from '../../../test/fakes/scripted-qmp.ts'
import { QemuMonitor } from './qemu-monitor.ts'
import type { FaultCode } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'

const PROGRAM = '/usr/bin/qemu-system-x86_64'

test("a guest has the host's processor with KVM, and one of its own with emulation", () => {
  const of = (accelerator: 'kvm' | 'tcg') =>
    new QemuMonitor({ program: PROGRAM, accelerator, log: silentLog }).processor
  const own = processorOf(readFileSync('/proc/cpuinfo', 'utf8'))
  assert.ok(own.vendor !== 'unknown' && own.features.length > 3)
  assert.deepEqual(of('kvm'), own)
  assert.deepEqual(of('tcg'), EMULATED)
})

const id = 'web-1' as VmId
const never = new AbortController().signal
const MIB = 1024 * 1024

const honest = (): Record<string, unknown> => {
  const inserted = { 'node-name': 'disk', image: { 'virtual-size': 64 * MIB }, iops: 0, bps: 0 }
  const stats = { rd_bytes: 1, rd_operations: 2, wr_bytes: 3, wr_operations: 4 }
  return {
    'query-status': { status: 'paused' },
    'query-block': [{ qdev: '/machine/disk', inserted }],
    'query-blockstats': [{ 'node-name': 'disk', stats }],
    'query-chardev': [{ label: 'agent', 'frontend-open': true }],
    'query-migrate-capabilities': [],
  }
}

/** The driver, and a monitor whose answers can be changed, also by a command that comes before them. */
async function scripted(
  t: TestContext,
  changes: Readonly<Record<string, Record<string, unknown>>> = {},
  program = PROGRAM,
): Promise<{ monitor: QemuMonitor; answers: Record<string, unknown>; commands: string[] }> {
  const runDirectory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const path = qmpSocketPath(runDirectory, id)
  mkdirSync(dirname(path))
  const answers = honest()
  const commands: string[] = []
  const onCommand = (command: string): void => {
    commands.push(command)
    Object.assign(answers, changes[command])
  }
  await scriptedQmp(t, path, answers, { onCommand })
  const monitor = new QemuMonitor({ program, accelerator: 'tcg', runDirectory, log: silentLog })
  t.after(() => {
    monitor.close()
    rmSync(runDirectory, { recursive: true })
  })
  return { monitor, answers, commands }
}

test('a monitor that answers as QEMU does is understood', async (t) => {
  const { monitor } = await scripted(t)
  assert.deepEqual(await monitor.inspect(id), { kind: 'paused', disk: { sizeMib: 64 } })
  const counters = { readBytes: 1, readOperations: 2, writtenBytes: 3, writeOperations: 4 }
  assert.deepEqual(await monitor.diskCounters(id), counters)
  assert.equal(await monitor.agentListens(id), true)
  await monitor.ensureRunning(id, never)
})

/** The questions and commands that end a save which does not wait before its end. */
const CANCELLING = [
  'query-migrate',
  'query-migrate-capabilities',
  'migrate_cancel',
  'query-migrate',
  'query-status',
]
const SAVE_OVER = { 'query-migrate': { status: 'completed' } }

test('a guest whose save is over is resumed after one round of questions, the save before the run state', async (t) => {
  const { monitor, answers, commands } = await scripted(t)
  Object.assign(answers, SAVE_OVER, { 'query-status': { status: 'postmigrate' } })
  await monitor.ensureRunning(id, never)
  assert.deepEqual(commands, ['qmp_capabilities', 'query-migrate', 'query-status', 'query-block', 'cont'])
})

test('a guest is not resumed before its save is finalized', async (t) => {
  // The answer of the second round; the first has this one still.
  const finalized = { 'query-block': { 'query-status': { status: 'postmigrate' } } }
  const { monitor, answers, commands } = await scripted(t, finalized)
  Object.assign(answers, SAVE_OVER, { 'query-status': { status: 'finish-migrate' } })
  await monitor.ensureRunning(id, never)
  assert.deepEqual(commands.slice(4), [
    'query-migrate',
    'query-status',
    'query-status',
    'query-block',
    'cont',
  ])
})

test('a guest is not resumed before the save that is under way is cancelled', async (t) => {
  const cancelled = { migrate_cancel: { 'query-migrate': { status: 'cancelled' } } }
  const { monitor, answers, commands } = await scripted(t, cancelled)
  Object.assign(answers, { 'query-migrate': { status: 'active' } })
  await monitor.ensureRunning(id, never)
  assert.deepEqual(commands.slice(4), [...CANCELLING, 'query-status', 'query-block', 'cont'])
})

test('a guest that a given-up save made run again is paused after that save', async (t) => {
  const cancelled = {
    migrate_cancel: { 'query-migrate': { status: 'cancelled' }, 'query-status': { status: 'running' } },
  }
  const { monitor, answers, commands } = await scripted(t, cancelled)
  Object.assign(answers, { 'query-migrate': { status: 'active' } })
  await monitor.ensurePaused(id, never)
  assert.deepEqual(commands.slice(4), [...CANCELLING, 'query-status', 'query-block', 'stop'])
})

test('a guest that is restored is not taken for one that is saved', async (t) => {
  const { monitor, answers, commands } = await scripted(t)
  Object.assign(answers, { 'query-migrate': { status: 'active' }, 'query-status': { status: 'inmigrate' } })
  await monitor.ensurePaused(id, never)
  await assert.rejects(monitor.ensureRunning(id, never), isFault('monitor_refused'))
  assert.ok(!commands.includes('migrate_cancel'))
})

/** A program that is installed in this version. */
function installed(t: TestContext, version: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'vmh-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const program = join(directory, 'qemu-system-x86_64')
  writeFileSync(program, `#!/bin/sh\necho "QEMU emulator version ${version}"\n`, { mode: 0o755 })
  return program
}

const save = (monitor: QemuMonitor, mayRun?: boolean) =>
  monitor.save({ ...restoredOf(id, '/pool/memory'), ...given({ mayRun }) }, never)
const SAVED = { migrate: SAVE_OVER }
/** Changes of the run state when a saved guest runs, and is paused. */
const RUNS = {
  cont: { 'query-status': { status: 'running' } },
  stop: { 'query-status': { status: 'paused' } },
}

test('a guest whose save ended with its daemon is saved again after it has run for a moment, if it may', async (t) => {
  const { monitor, answers, commands } = await scripted(t, { ...SAVED, ...RUNS }, installed(t, '10.0.2'))
  Object.assign(answers, SAVE_OVER, { 'query-status': { status: 'postmigrate' } })
  await assert.rejects(save(monitor), (error: unknown) => {
    assert.match(errorChain(error), /saves a guest again only after it has run; resume the VM/)
    return isFault('save_failed')(error)
  })
  assert.ok(!commands.includes('cont') && !commands.includes('migrate'))
  await save(monitor, true)
  const acts = commands.filter((command) => !command.startsWith('query-'))
  assert.deepEqual(acts.slice(1, 3), ['cont', 'stop'])
  assert.ok(acts.includes('migrate'))
})

test('a save that a former daemon left under way is given up before another one', async (t) => {
  const cancelled = { migrate_cancel: { 'query-migrate': { status: 'cancelled' } } }
  const { monitor, answers, commands } = await scripted(t, { ...SAVED, ...cancelled }, installed(t, '10.0.2'))
  Object.assign(answers, { 'query-migrate': { status: 'active' } })
  await save(monitor)
  const acts = commands.filter((command) => command.startsWith('migrate') && !command.includes('-set-'))
  assert.deepEqual(acts, ['migrate_cancel', 'migrate'])
})

for (const version of ['10.0.2', '10.1.0'])
  test(`a guest under QEMU 10.0.2 is saved if ${version} is installed`, async (t) => {
    const { monitor, commands } = await scripted(t, SAVED, installed(t, version))
    assert.equal((await save(monitor)).version, '10.0.2')
    assert.ok(commands.includes('migrate'))
  })

test('a guest that the installed QEMU could not restore is not saved', async (t) => {
  const { monitor, commands } = await scripted(t, SAVED, installed(t, '10.0.1'))
  const said = /qemu-system-x86_64 10\.0\.2 with tcg, and here is 10\.0\.1; stop the VM and start it, once/
  await assert.rejects(save(monitor), (error: HostFault) => {
    assert.match(String(error.cause), said)
    return isFault('save_failed')(error)
  })
  assert.ok(!commands.includes('migrate'))
})

test('without an installed QEMU no guest is saved', async (t) => {
  const { monitor, commands } = await scripted(t, SAVED, '/usr/bin/no-such-qemu')
  await assert.rejects(save(monitor), isFault('monitor_missing'))
  assert.ok(!commands.includes('migrate'))
})

/** Answers that are none to any question. */
const NONE = [null, 7, 'text', [], {}, [null], [7], [{}]]

for (const [command, answers, calls] of [
  [
    'query-status',
    [...NONE, { status: null }, { status: 7 }, { status: {} }],
    ['inspect', 'ensureRunning', 'ensurePaused', 'ensureDiskSize', 'save'],
  ],
  [
    'query-block',
    [...NONE, [{ qdev: 7, inserted: { 'node-name': 'disk' } }]],
    ['inspect', 'ensureRunning', 'ensurePaused', 'ensureDiskSize', 'ensureDiskLimits', 'save'],
  ],
  ['query-blockstats', NONE, ['diskCounters']],
  ['query-chardev', [null, 7, 'text', {}], ['agentListens']],
  ['query-migrate', [null, 7, 'text'], ['ensureRunning']],
] as const) {
  test(`an answer of another form to ${command} is a refusal, and is not a bug`, async (t) => {
    const { monitor, answers: script } = await scripted(t)
    const called = {
      inspect: () => monitor.inspect(id),
      ensureRunning: () => monitor.ensureRunning(id, never),
      ensurePaused: () => monitor.ensurePaused(id, never),
      ensureDiskSize: () => monitor.ensureDiskSize(id, 128, never),
      ensureDiskLimits: () => monitor.ensureDiskLimits(id, { iopsMax: 1 }, never),
      diskCounters: () => monitor.diskCounters(id),
      agentListens: () => monitor.agentListens(id),
      save: () => save(monitor),
    }
    for (const answer of answers) {
      script[command] = answer
      for (const call of calls) {
        const what = `${call}: ${JSON.stringify(answer)}`
        const code = call === 'save' ? 'save_failed' : 'monitor_refused'
        await assert.rejects(called[call](), isFault(code), what)
      }
    }
    Object.assign(script, honest())
    assert.equal((await monitor.inspect(id)).kind, 'paused', 'the connection is still in use')
  })
}

test('a guest whose monitor shows no state is not restored, and devices without a name are no agent', async (t) => {
  const { monitor, answers } = await scripted(t)
  answers['query-chardev'] = [null, 7, {}, { label: 'agent' }]
  assert.equal(await monitor.agentListens(id), false)
  answers['query-status'] = null
  await assert.rejects(
    monitor.ensureRestored(restoredOf(id, '/pool/memory'), never),
    isFault('restore_failed'),
  )
})

function isFault(code: FaultCode): (error: unknown) => boolean {
  return (error) => error instanceof HostFault && error.code === code
}
