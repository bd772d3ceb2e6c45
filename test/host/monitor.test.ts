import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, open, readFile, rm, stat, statfs, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import { run } from './run.ts'
import { judgeKvm } from '../../src/core/monitor/choose-monitor.ts'
import { tryKvm } from '../../src/host/kvm/try-kvm.ts'
import { QemuMonitor } from '../../src/host/qemu/qemu-monitor.ts'
import { qemuVersion } from '../../src/host/qemu/qemu-version.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { silentLog } from '../../src/log/log.ts'
import type { MonitorStage, StartOptions } from '../contract/monitor-stage.ts'
import { atEnd, undoAll } from '../contract/at-end.ts'
import { DISK_MIB, monitorContract, saveContract } from '../contract/monitor.contract.ts'
import { until } from '../contract/until.ts'
import { machineOf, restoredOf } from '../fakes/machine.ts'

const PROGRAM = `/usr/bin/qemu-system-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}`
/** Kernel and initrd of the demo guest, which the lab provides. */
const GUEST = '/srv/guest'
const MIB = 1024 * 1024

type QemuStage = MonitorStage & {
  readonly monitor: QemuMonitor
  readonly runDirectory: string
  readonly console: (id: VmId) => Promise<string>
  /** Runs a command in the guest's shell and resolves to the first word of its output. */
  readonly ask: (id: VmId, command: string) => Promise<string>
  readonly startMachine: (id: VmId, options: StartOptions, changes: Partial<MachineSpec>) => Promise<void>
  /** Starts a guest that lacks the devices with this name. */
  readonly startWithout: (id: VmId, device: string) => Promise<void>
}

/** QEMU processes started with the exact command that units get, in a run directory of the test's own. */
async function stageOf(t: TestContext, { savesStreams = false } = {}): Promise<QemuStage> {
  const runDirectory = await mkdtemp(join(tmpdir(), 'vmh-'))
  const accelerator = judgeKvm(await tryKvm()).isFast ? 'kvm' : 'tcg'
  const monitor = new QemuMonitor({
    program: PROGRAM,
    accelerator,
    runDirectory,
    savesStreams,
    log: silentLog,
  })
  const restoreForm = savesStreams ? 'stream' : 'mapped'
  const processes = new Map<VmId, ChildProcess>()
  const consoleFile = (id: VmId): string => join(runDirectory, id, 'console')

  const diskFile = (id: VmId): string => join(runDirectory, id, 'disk', 'disk.raw')
  const ballast = (id: VmId): string => join(runDirectory, id, 'disk', 'ballast')
  const small: string[] = []
  const restored = new Set<VmId>()
  let asked = 0
  const said = async (id: VmId, what: RegExp): Promise<string> => {
    const text = await until(
      () => readFile(consoleFile(id), 'utf8'),
      (output) => what.test(output),
      60_000,
    )
    return what.exec(text)?.[1] ?? ''
  }

  const startMachine = async (
    id: VmId,
    options: StartOptions,
    changes: Partial<MachineSpec>,
    edit: (args: readonly string[]) => readonly string[] = (args) => args,
  ): Promise<void> => {
    const { paused, diskLimits = {}, smallPool = false, restorePath } = options
    const directory = join(runDirectory, id)
    await mkdir(join(directory, 'disk'), { recursive: true })
    if (smallPool) {
      await mountSmall(join(directory, 'pool.img'), join(directory, 'disk'))
      small.push(join(directory, 'disk'))
    }
    const [diskPath, seedPath] = [diskFile(id), join(directory, 'seed.iso')]
    if (restorePath === undefined) {
      for (const path of [diskPath, seedPath]) await writeFile(path, '')
      await truncate(diskPath, DISK_MIB * MIB)
      await truncate(seedPath, MIB)
    } else restored.add(id)
    // systemd does this with a unit's runtime directory; the socket of the previous process must not be taken for ours.
    await rm(join(directory, 'qmp.sock'), { force: true })
    const { command } = monitor.unitSpec(
      machineOf(id, {
        kernelPath: join(GUEST, 'vmlinuz'),
        initrdPath: join(GUEST, 'initrd.cpio.gz'),
        diskPath,
        diskLimits,
        seedPath,
        startPaused: paused,
        ...(restorePath === undefined ? {} : { restorePath, restoreForm }),
        ...changes,
      }),
    )
    const [program, ...args] = command
    const child = spawn(program, edit(args), { stdio: 'pipe' })
    const output = createWriteStream(consoleFile(id))
    child.stdout.pipe(output, { end: false })
    child.stderr.pipe(output, { end: false })
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
    await rm(join(runDirectory, id, 'qmp.sock'), { force: true })
  }
  const ask = async (id: VmId, command: string): Promise<string> => {
    if (!restored.has(id)) await said(id, /demo guest ready/)
    const number = ++asked
    processes.get(id)?.stdin?.write(`echo answer ${number} $(${command})\n`)
    // The pattern includes the character after the word, because the console is read while it is written.
    return said(id, new RegExp(`answer ${number} ([^$\\s]+)\\s`))
  }
  atEnd(t, () => rm(runDirectory, { recursive: true }))
  atEnd(t, () => undoAll(small.map((path) => () => run(['umount', path]))))
  atEnd(t, () => undoAll([...processes.keys()].map((id) => () => end(id))))
  atEnd(t, () => monitor.close())
  return {
    monitor,
    countsDisk: true,
    restoresAlone: true,
    pausesWhenFull: true,
    runDirectory,
    start: (id, options) => startMachine(id, options, {}),
    startMachine,
    startWithout: (id, device) =>
      startMachine(id, { paused: false }, {}, (args) =>
        args.filter((arg, at) => !arg.startsWith(device) && args[at + 1]?.startsWith(device) !== true),
      ),
    end,
    fillPool: async (id) => {
      await said(id, /demo guest ready/)
      const { bavail, bsize } = await statfs(dirname(ballast(id)))
      await run(['fallocate', `--length=${bavail * bsize}`, ballast(id)])
      processes.get(id)?.stdin?.write('dd if=/dev/zero of=/dev/vda bs=1M count=4 oflag=direct\n')
    },
    saveFile: (id) => join(runDirectory, id, 'memory'),
    guest: (id) => restoredOf(id, join(runDirectory, id, 'memory')),
    memory: (id) => ask(id, 'cat /proc/sys/kernel/random/boot_id'),
    ask,
    useDisk: async (id) => {
      const make = 'mke2fs /dev/vda && mkdir /disk && mount -t ext4 /dev/vda /disk'
      assert.equal(await ask(id, `{ ${make}; } >/dev/null 2>&1 && echo mounted`), 'mounted')
      // The agent starts after the guest has reported that it is ready.
      const hasPort = "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q '/dev/vport'"
      await ask(id, `until ${hasPort}; do sleep 0.1; done; echo there`)
    },
    write: async (id) => {
      const touch = 'touch /disk/$RANDOM </dev/null >/dev/null 2>&1 &'
      // A writer to a frozen file system waits for the lock that the freeze holds.
      const look = 'case $(cat /proc/$!/wchan) in *percpu_rwsem*) echo waits; exit ;; esac'
      const answer = await ask(id, `${touch} while kill -0 $!; do ${look}; done 2>/dev/null; echo written`)
      return answer === 'waits' ? 'waits' : 'written'
    },
    damage: async (path, how) => {
      if (how !== 'altered') return truncate(path, how === 'emptied' ? 0 : 512)
      const file = await open(path, 'r+')
      await file.write(Buffer.alloc(64, 0x55), 0, 64, 0)
      await file.close()
    },
    makeRoom: (id) => rm(ballast(id)),
    growFile: (id, sizeMib) => truncate(diskFile(id), sizeMib * MIB),
    console: (id) => readFile(consoleFile(id), 'utf8'),
  }
}

/** Makes a file system that fills up quickly. */
async function mountSmall(file: string, mountPoint: string): Promise<void> {
  await writeFile(file, '')
  await truncate(file, 16 * MIB)
  await run(['mkfs.ext4', '-q', '-F', '-m', '0', file])
  await run(['mount', '-o', 'loop', file, mountPoint])
}

monitorContract('QEMU', stageOf)
// The form that a QEMU before 9.0 writes, written by the installed one.
saveContract('QEMU that saves streams', (t) => stageOf(t, { savesStreams: true }))

const id = 'web-1' as VmId
const never = new AbortController().signal

test('QEMU: the kernel boots on the command that units get, and its console output arrives', async (t) => {
  const stage = await stageOf(t)
  await stage.start(id, { paused: false })
  const output = await until(
    () => stage.console(id),
    (text) => text.includes('demo guest ready'),
    60_000,
  )
  assert.match(output, /Kernel command line: console=\S+ root=\/dev\/vda rw panic=-1/)
  assert.match(output, /virtio_blk virtio\d+: \[vda\]/)
  assert.equal((await stage.monitor.inspect(id)).kind, 'running')
})

test('QEMU: a paused guest does not run, and a new daemon finds it as it is', async (t) => {
  const stage = await stageOf(t)
  await stage.start(id, { paused: true })
  await until(
    () => stage.monitor.inspect(id),
    (state) => state.kind === 'paused',
  )
  stage.monitor.close()
  assert.equal((await stage.monitor.inspect(id)).kind, 'paused')
  assert.equal(await stage.console(id), '')
})

test('QEMU: a second client waits in vain and is reported as silent', async (t) => {
  const stage = await stageOf(t)
  await stage.start(id, { paused: false })
  await until(
    () => stage.monitor.inspect(id),
    (state) => state.kind === 'running',
  )
  const [program] = stage.monitor.unitSpec(machineOf(id)).command
  const runDirectory = stage.runDirectory
  const second = new QemuMonitor({
    program,
    accelerator: 'tcg',
    runDirectory,
    greetingMs: 100,
    log: silentLog,
  })
  assert.deepEqual(await second.inspect(id), { kind: 'silent' })
  stage.monitor.close()
  await until(
    () => second.inspect(id),
    (state) => state.kind === 'running',
  )
  second.close()
})

test('QEMU: a save is aborted in its middle, by the daemon that began it or by the next one', async (t) => {
  const stage = await stageOf(t)
  const { monitor, startMachine, ask, saveFile } = stage
  const path = saveFile(id)
  const mib = async (): Promise<number> => (await stat(path).catch(() => ({ blocks: 0 }))).blocks / 2048
  const compute = { cpuMillicores: 1000, memoryMib: 512, sleepAfterIdleSeconds: 0 }
  const guest = { id, path, memoryMib: compute.memoryMib }
  await startMachine(id, { paused: false }, { compute })
  // Memory with content: pages of zeros are not written.
  const fill =
    'dd if=/dev/urandom of=/tmp/1 bs=1M count=16; for i in $(seq 20); do cat /tmp/1; done >/tmp/20; echo filled'
  assert.equal(await ask(id, `mount -o remount,size=90% /tmp; { ${fill}; } 2>/dev/null`), 'filled')
  await monitor.ensurePaused(id, never)
  const beganAt = performance.now()
  await monitor.save(guest, never)
  const wholeMs = performance.now() - beganAt
  t.diagnostic(`a whole save of ${(await mib()).toFixed(0)} MiB takes ${wholeMs.toFixed(0)} ms`)
  const reason = new Error('a packet came')
  const begun = async (fault: object): Promise<{ saving: Promise<void>; aborting: AbortController }> => {
    await monitor.ensureRunning(id, never)
    await monitor.ensurePaused(id, never)
    await rm(path)
    const aborting = new AbortController()
    const saving = assert.rejects(monitor.save(guest, aborting.signal), fault)
    await until(mib, (written) => written > 0)
    return { saving, aborting }
  }
  const abortMs: number[] = []
  for (const way of ['abort', 'another daemon', 'abort', 'abort'] as const) {
    const { saving, aborting } = await begun(way === 'abort' ? reason : { code: 'monitor_unreachable' })
    const decidedAt = performance.now()
    if (way === 'abort') aborting.abort(reason)
    else monitor.close()
    await saving
    await monitor.resumeFromSave(id, never)
    const ms = performance.now() - decidedAt
    await monitor.ensureRunning(id, never)
    const endMs = performance.now() - decidedAt
    const writtenMib = await mib()
    const figures = `the guest runs after ${ms.toFixed(1)} ms, and the save has ended after ${endMs.toFixed(1)}`
    t.diagnostic(`${way}: ${figures}, with ${writtenMib.toFixed(0)} MiB`)
    if (way === 'abort') abortMs.push(ms)
    assert.equal(await ask(id, 'echo alive'), 'alive')
    // A save that still ran would have ended by now, and would stop the guest.
    assert.equal(await mib(), writtenMib)
    assert.equal((await monitor.inspect(id)).kind, 'running')
  }
  // The best of a few, on a shared machine; a caller that waited for the end of the save would take longer.
  assert.ok(
    Math.min(...abortMs) < Math.min(50, wholeMs / 3),
    `the guest went on ${abortMs.map((ms) => ms.toFixed(1)).join(', ')} ms after`,
  )
  const { saving, aborting } = await begun(reason)
  aborting.abort(reason)
  await saving
  // Another can begin, and ends the first.
  await monitor.save(guest, never)
})

test('QEMU: a guest that was started without the support for saving is not saved, and continues', async (t) => {
  const { monitor, startWithout, saveFile } = await stageOf(t)
  await startWithout(id, 'virtio-balloon-pci')
  const kind = async (): Promise<string> => (await monitor.inspect(id)).kind
  await until(kind, (now) => now === 'running')
  await monitor.ensurePaused(id, never)
  await assert.rejects(monitor.save(restoredOf(id, saveFile(id)), never), (error: unknown) => {
    assert.ok(error instanceof HostFault && error.code === 'save_failed')
    assert.match(errorChain(error), /stop the VM and start it, once$/)
    return true
  })
  await monitor.ensureRunning(id, never)
  assert.equal(await kind(), 'running')
})

test('QEMU reports its version', async () => {
  assert.match(await qemuVersion(PROGRAM), /^\d+\.\d+\.\d+$/)
})
