import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, createWriteStream, openSync, statSync, writeSync } from 'node:fs'
import { mkdir, mkdtemp, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { FirecrackerMonitor } from '../../src/host/firecracker/firecracker-monitor.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { silentLog } from '../../src/log/log.ts'
import type { MonitorStage, StartOptions } from '../contract/monitor-stage.ts'
import { atEnd, undoAll } from '../contract/at-end.ts'
import { DISK_MIB, monitorContract } from '../contract/monitor.contract.ts'
import { until } from '../contract/until.ts'
import { machineOf, restoredOf } from '../fakes/machine.ts'
import { firecracker, skipWithoutFirecracker as skip } from './with-firecracker.ts'

/** The bare guest, which the lab provides. */
const GUEST = '/srv/guest/bare.elf'
const MIB = 1024 * 1024
const PROGRAM = firecracker ?? '/usr/bin/firecracker'
const MEMORY_BYTES = machineOf('web-1' as VmId).compute.memoryMib * MIB
const userId = (process.getuid?.() ?? 0) as UserId

type FirecrackerStage = Omit<MonitorStage, 'start'> & {
  readonly monitor: FirecrackerMonitor
  readonly runDirectory: string
  readonly console: (id: VmId) => Promise<string>
  /** Writes a line to the guest's console, and resolves to what the answer has. */
  readonly ask: (id: VmId, line: string, answer: RegExp) => Promise<string>
  readonly pid: (id: VmId) => number
  /** Reads the standard error of the process, which is the journal in a unit. */
  readonly errors: (id: VmId) => Promise<string>
  readonly start: (id: VmId, how: StartOptions & { readonly kernelPath?: string }) => Promise<void>
}

/**
 * Firecracker processes started with the exact command and files that units get, in a run directory of the test's own.
 */
async function stageOf(t: TestContext): Promise<FirecrackerStage> {
  const runDirectory = await mkdtemp(join(tmpdir(), 'vmh-'))
  const file = (id: VmId, name: string): string => join(runDirectory, `${id}-${name}`)
  const diskFile = (id: VmId): string => file(id, 'disk.raw')
  const monitor = new FirecrackerMonitor({
    program: PROGRAM,
    runDirectory,
    diskPath: diskFile,
    log: silentLog,
  })
  const processes = new Map<VmId, ChildProcess>()
  const inputs = new Map<VmId, number>()
  const restored = new Set<VmId>()
  const said = async (id: VmId, from: number, what: RegExp): Promise<string> => {
    const text = await until(
      async () => (await readFile(file(id, 'console'), 'utf8')).slice(from),
      (output) => what.test(output),
      20_000,
    )
    return what.exec(text)?.[1] ?? ''
  }

  const start: FirecrackerStage['start'] = async (
    id,
    { diskLimits = {}, restorePath, kernelPath = GUEST },
  ) => {
    const [diskPath, seedPath] = [diskFile(id), file(id, 'seed.iso')]
    if (restorePath === undefined) {
      for (const path of [diskPath, seedPath]) await writeFile(path, '')
      await truncate(diskPath, DISK_MIB * MIB)
      await truncate(seedPath, MIB)
    } else restored.add(id)
    const changes: Partial<MachineSpec> = {
      userId,
      kernelPath,
      diskPath,
      diskLimits,
      seedPath,
      ...(restorePath === undefined ? {} : { restorePath }),
    }
    const { command, runtimeFiles } = monitor.unitSpec(machineOf(id, changes))
    const directory = join(runDirectory, id)
    await rm(directory, { recursive: true, force: true })
    await mkdir(directory, { mode: 0o700 })
    for (const { name, content } of runtimeFiles) await writeFile(join(directory, name), content)
    const [program, ...args] = command
    // Firecracker reads its console from a terminal or a FIFO, and Node's pipes are sockets.
    const input = file(id, 'input')
    await rm(input, { force: true })
    await run(['mkfifo', input])
    const stdin = openSync(input, 'r+')
    const child = spawn(program, args, { stdio: [stdin, 'pipe', 'pipe'] })
    inputs.set(id, stdin)
    const output = createWriteStream(file(id, 'console'))
    child.stdout?.pipe(output, { end: false })
    child.stderr?.pipe(createWriteStream(file(id, 'errors')))
    processes.set(id, child)
    // The console is read from now on, so its file must be there.
    await Promise.all([once(child, 'spawn'), once(output, 'open')])
  }
  const end = async (id: VmId): Promise<void> => {
    const child = processes.get(id)
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
    closeSync(inputs.get(id) ?? assert.fail(`no console of ${id}`))
    await rm(join(runDirectory, id), { recursive: true })
  }
  const ask = async (id: VmId, line: string, answer: RegExp): Promise<string> => {
    if (!restored.has(id)) await said(id, 0, /bare guest (ready) life/)
    const from = statSync(file(id, 'console')).size
    writeSync(inputs.get(id) ?? assert.fail(`no console of ${id}`), `${line}\n`)
    return said(id, from, answer)
  }
  const saveFile = (id: VmId): string => file(id, 'memory')
  atEnd(t, () => rm(runDirectory, { recursive: true }))
  atEnd(t, () => undoAll([...processes.keys()].map((id) => () => end(id))))
  atEnd(t, () => monitor.close())
  return {
    monitor,
    countsDisk: false,
    restoresAlone: false,
    pausesWhenFull: false,
    runDirectory,
    start,
    end,
    ask,
    errors: (id) => readFile(file(id, 'errors'), 'utf8'),
    pid: (id) => processes.get(id)?.pid ?? 0,
    saveFile,
    guest: (id) => ({ ...restoredOf(id, saveFile(id)), userId }),
    memory: (id) => ask(id, 'count', /life (\w+) count \d+\r?\n/),
    useDisk: async (id) => {
      await ask(id, 'size', /(size \d+) sectors/)
    },
    write: async (id) => {
      const answer = await ask(id, 'write 8 text', /> write 8 text\r?\n(wrote 8|waits for a thaw)/)
      return answer === 'wrote 8' ? 'written' : 'waits'
    },
    damage: async (path, how) => {
      if (how !== 'altered') return truncate(path, how === 'emptied' ? 0 : 512)
      // Firecracker has a checksum of its devices only, which follow the memory.
      const handle = await open(path, 'r+')
      await handle.write(Buffer.alloc(64, 0x55), 0, 64, MEMORY_BYTES + 64)
      await handle.close()
    },
    fillPool: () => assert.fail('a guest of Firecracker gets the error of a full pool'),
    makeRoom: () => assert.fail('a guest of Firecracker gets the error of a full pool'),
    growFile: (id, sizeMib) => truncate(diskFile(id), sizeMib * MIB),
    console: (id) => readFile(file(id, 'console'), 'utf8'),
  }
}

if (skip === false) monitorContract('Firecracker', stageOf)
else test('Firecracker keeps the promises of every monitor', { skip }, () => {})

const id = 'web-1' as VmId
const never = new AbortController().signal
const mib = (bytes: number): string => (bytes / MIB).toFixed(1)

test(
  'Firecracker: a guest that uses little is saved into a small file, and is soon restored',
  { skip },
  async (t) => {
    const { monitor, start, end, memory, saveFile, guest, pid } = await stageOf(t)
    const startedAt = performance.now()
    await start(id, { paused: false })
    await until(
      () => monitor.inspect(id),
      ({ kind }) => kind === 'running',
    )
    t.diagnostic(`running ${(performance.now() - startedAt).toFixed(0)} ms after the start`)
    await memory(id)
    const status = await readFile(`/proc/${pid(id)}/status`, 'utf8')
    t.diagnostic(`the monitor of a guest that has just started: ${/VmRSS:\s*(.*)/.exec(status)?.[1]}`)
    await monitor.ensurePaused(id, never)
    const savingAt = performance.now()
    await monitor.save(guest(id), never)
    const saveMs = performance.now() - savingAt
    const { size, blocks } = await stat(saveFile(id))
    t.diagnostic(`saved in ${saveMs.toFixed(0)} ms: ${mib(blocks * 512)} of ${mib(size)} MiB`)
    assert.ok(size > MEMORY_BYTES && size < MEMORY_BYTES + MIB, `the file has ${size} bytes`)
    assert.ok(blocks * 512 < 4 * MIB, `the file takes ${mib(blocks * 512)} MiB`)
    await end(id)
    await start(id, { paused: true, restorePath: saveFile(id) })
    await until(
      () => monitor.inspect(id),
      ({ kind }) => kind === 'restoring',
    )
    const restoringAt = performance.now()
    await monitor.ensureRestored(guest(id), never)
    t.diagnostic(`restored in ${(performance.now() - restoringAt).toFixed(1)} ms`)
  },
)

test('Firecracker: a restore that fails has its reason, and so has a start', { skip }, async (t) => {
  const { monitor, start, saveFile, guest, errors } = await stageOf(t)
  await writeFile(saveFile(id), Buffer.alloc(1000))
  await start(id, { paused: true, restorePath: saveFile(id) })
  await assert.rejects(monitor.ensureRestored(guest(id), never), (error: unknown) => {
    assert.match(errorChain(error), /could not read it; .*journalctl.*snapshot/i)
    return true
  })
  await start(id, { paused: false, kernelPath: '/nonexistent' })
  const said = await until(
    () => errors(id),
    (text) => text !== '',
  )
  assert.match(said, /kernel/i)
})
