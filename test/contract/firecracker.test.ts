/** The driver of Firecracker with a program in the place of Firecracker that answers like it. */
import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, open, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { MachineSpec } from '../../src/core/monitor/machine-spec.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import { FirecrackerMonitor } from '../../src/host/firecracker/firecracker-monitor.ts'
import { MIB } from '../../src/lib/byte-units.ts'
import { silentLog } from '../../src/log/log.ts'
import { FakeFirecracker } from '../fakes/fake-firecracker.ts'
import { machineOf, restoredOf } from '../fakes/machine.ts'
import { atEnd } from './at-end.ts'
import { DISK_MIB, monitorContract } from './monitor.contract.ts'
import type { MonitorStage } from './monitor-stage.ts'

const userId = (process.getuid?.() ?? 0) as UserId
const MEMORY_BYTES = machineOf('web-1' as VmId).compute.memoryMib * MIB
const VERSIONS = `#!/bin/sh
case $1 in
  --version) echo 'Firecracker v1.16.1' ;;
  --snapshot-version) echo v10.0.0 ;;
esac
`

async function stageOf(t: TestContext): Promise<MonitorStage> {
  const runDirectory = await mkdtemp(join(tmpdir(), 'vmh-'))
  const program = join(runDirectory, 'firecracker')
  await writeFile(program, VERSIONS, { mode: 0o755 })
  const file = (id: VmId, name: string): string => join(runDirectory, `${id}-${name}`)
  const diskFile = (id: VmId): string => file(id, 'disk.raw')
  const monitor = new FirecrackerMonitor({ program, runDirectory, diskPath: diskFile, log: silentLog })
  const processes = new Map<VmId, FakeFirecracker>()
  const saveFile = (id: VmId): string => file(id, 'memory')
  const running = (id: VmId): FakeFirecracker => processes.get(id) ?? assert.fail(`${id} was not started`)
  atEnd(t, () => rm(runDirectory, { recursive: true }))
  atEnd(t, () => {
    for (const one of processes.values()) one.end()
  })
  atEnd(t, () => monitor.close())
  return {
    monitor,
    countsDisk: false,
    restoresAlone: false,
    pausesWhenFull: false,
    start: async (id, { diskLimits = {}, restorePath }) => {
      const [diskPath, seedPath] = [diskFile(id), file(id, 'seed.iso')]
      if (restorePath === undefined) {
        for (const path of [diskPath, seedPath, saveFile(id)]) await writeFile(path, '')
        await truncate(diskPath, DISK_MIB * MIB)
      }
      const restore = restorePath === undefined ? {} : { restorePath }
      const changes: Partial<MachineSpec> = { userId, diskPath, diskLimits, seedPath, ...restore }
      const { command, runtimeFiles } = monitor.unitSpec(machineOf(id, changes))
      const directory = join(runDirectory, id)
      await rm(directory, { recursive: true, force: true })
      await mkdir(directory, { mode: 0o700 })
      for (const { name, content } of runtimeFiles) await writeFile(join(directory, name), content)
      const valueOf = (option: string): string | undefined => {
        const at = command.indexOf(option)
        return at === -1 ? undefined : command[at + 1]
      }
      const started = await FakeFirecracker.start(valueOf('--api-sock') ?? '', valueOf('--config-file'))
      processes.set(id, started)
    },
    end: (id) => {
      processes.get(id)?.end()
      rmSync(join(runDirectory, id), { recursive: true })
    },
    growFile: (id, sizeMib) => truncate(diskFile(id), sizeMib * MIB),
    fillPool: () => assert.fail('a guest of Firecracker gets the error of a full pool'),
    makeRoom: () => assert.fail('a guest of Firecracker gets the error of a full pool'),
    saveFile,
    guest: (id) => ({ ...restoredOf(id, saveFile(id)), userId }),
    memory: (id) => String(running(id).life),
    useDisk: () => {},
    write: (id) => (running(id).isFrozen ? 'waits' : 'written'),
    damage: async (path, how) => {
      if (how !== 'altered') return truncate(path, how === 'emptied' ? 0 : 512)
      const handle = await open(path, 'r+')
      await handle.write(Buffer.alloc(64, 0x55), 0, 64, MEMORY_BYTES + 64)
      await handle.close()
    },
  }
}

monitorContract('Firecracker, by its API', stageOf)

for (const [what, memoryMib] of [
  ['less', 256],
  ['more', 64],
] as const) {
  test(`Firecracker, by its API: a file with ${what} than the guest's memory is not read`, async (t) => {
    const { monitor, start, guest, saveFile } = await stageOf(t)
    const id = 'web-1' as VmId
    const never = new AbortController().signal
    await start(id, { paused: false })
    await monitor.ensurePaused(id, never)
    await assert.rejects(monitor.save({ ...guest(id), memoryMib }, never), { code: 'save_failed' })
    assert.equal((await stat(saveFile(id))).size, MEMORY_BYTES)
  })
}
