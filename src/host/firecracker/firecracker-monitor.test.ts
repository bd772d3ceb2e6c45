import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../core/errors.ts'
import { firecrackerPaths } from '../../core/monitor/firecracker-machine.ts'
import { MIB } from '../../lib/byte-units.ts'
import { silentLog } from '../../log/log.ts'
import { until } from '../../../test/contract/until.ts'
import { FakeFirecracker } from '../../../test/fakes/fake-firecracker.ts'
import { FirecrackerMonitor } from './firecracker-monitor.ts'
import type { VmId } from '../../core/ids.ts'

const id = 'web-1' as VmId
const never = new AbortController().signal
const disk = { sizeMib: 64 }

type Stage = {
  readonly monitor: FirecrackerMonitor
  readonly started: FakeFirecracker
  readonly lies: Map<string, unknown>
  /** A file of another size than the guest's disk. */
  readonly other: string
}

/** The driver, and a process with a guest whose answers can be changed. */
async function stageOf(t: TestContext): Promise<Stage> {
  const runDirectory = mkdtempSync(join(tmpdir(), 'vmh-'))
  const file = (name: string, mib: number): string => {
    const path = join(runDirectory, name)
    writeFileSync(path, '')
    truncateSync(path, mib * MIB)
    return path
  }
  const [diskPath, other] = [file('disk.raw', disk.sizeMib), file('other', 128)]
  const { directory, api, agent, config } = firecrackerPaths(runDirectory, id)
  mkdirSync(directory)
  const machine = {
    'machine-config': { mem_size_mib: 128 },
    drives: [{ drive_id: 'disk', path_on_host: diskPath }],
    vsock: { uds_path: agent },
  }
  writeFileSync(config, JSON.stringify(machine))
  const started = await FakeFirecracker.start(api, config)
  const monitor = new FirecrackerMonitor({
    program: '/usr/bin/firecracker',
    runDirectory,
    diskPath: () => diskPath,
    log: silentLog,
  })
  t.after(() => {
    monitor.close()
    started.end()
    rmSync(runDirectory, { recursive: true })
  })
  return { monitor, started, lies: started.lies, other }
}

for (const [what, pathOf] of [
  ['another file', ({ other }: Stage) => other],
  ['a file that is not there', () => '/none'],
  ['a path that no file has', () => '\0'],
  ['a number', () => 7],
  ['nothing', () => undefined],
] as const) {
  test(`the size of a disk is that of the VM's own file, though its monitor names ${what}`, async (t) => {
    const stage = await stageOf(t)
    const { monitor, lies } = stage
    lies.set('GET /vm/config', { drives: [{ drive_id: 'disk', path_on_host: pathOf(stage) }] })
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
    await assert.rejects(monitor.ensureDiskSize(id, 128, never), isRefused)
    assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
  })
}

/** Answers that are none to any question. */
const NONE = [undefined, null, 7, 'text', [], {}]

test('a state of another form is a refusal, and is not a bug', async (t) => {
  const { monitor, lies } = await stageOf(t)
  for (const answer of [...NONE, { state: null }, { state: 7 }, { state: {} }]) {
    lies.set('GET /', answer)
    for (const call of [
      () => monitor.inspect(id),
      () => monitor.ensureRunning(id, never),
      () => monitor.ensurePaused(id, never),
      () => monitor.diskCounters(id),
    ])
      await assert.rejects(call(), isRefused, JSON.stringify(answer))
  }
})

test('a disk of another form is a refusal, and is not a bug', async (t) => {
  const { monitor, lies, other } = await stageOf(t)
  const limited = (limiter: unknown): object => ({
    drives: [{ drive_id: 'disk', path_on_host: other, rate_limiter: limiter }],
  })
  for (const answer of [
    ...NONE,
    ...[null, {}, [null], [7], ['disk']].map((drives) => ({ drives })),
    ...[7, 'text', {}, { size: '1', refill_time: 1000 }, { size: -1, refill_time: 1000 }].flatMap(
      (bucket) => [limited({ ops: bucket }), limited({ bandwidth: bucket })],
    ),
  ]) {
    lies.set('GET /vm/config', answer)
    await assert.rejects(monitor.inspect(id), isRefused, JSON.stringify(answer))
  }
  lies.clear()
  assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
})

test('a monitor that speaks without being asked is not listened to until the next question', async (t) => {
  const { monitor, started } = await stageOf(t)
  let changes = 0
  monitor.watch(() => (changes += 1))
  const connectionsAre = (wanted: number): Promise<number> =>
    until(
      () => started.connections,
      (count) => count === wanted,
    )
  await monitor.inspect(id)
  await connectionsAre(1)
  started.speak('x'.repeat(MIB))
  await connectionsAre(0)
  assert.equal(changes, 0)
  assert.deepEqual(await monitor.inspect(id), { kind: 'running', disk })
  await connectionsAre(1)
  started.end()
  await until(
    () => changes,
    (count) => count === 1,
  )
})

function isRefused(error: unknown): boolean {
  return error instanceof HostFault && error.code === 'monitor_refused'
}
