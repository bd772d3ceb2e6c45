/** The monitor's command, the pool's files and the unit's sandbox, together: does a guest live in there? */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createReadStream, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { renderSeed } from '../../src/core/storage/render-seed.ts'
import { SignedUrl } from '../../src/core/storage/signed-url.ts'
import type { MachineSpec } from '../../src/core/unit/machine-spec.ts'
import type { Sha256, UserId, VmId } from '../../src/core/vm/ids.ts'
import type { Pool } from '../../src/host/pool/pool.ts'
import { ConsoleMaster } from '../../src/host/pty/console-master.ts'
import { QemuMonitor } from '../../src/host/qemu/qemu-monitor.ts'
import { PRIVATE_SOCKET } from '../../src/host/systemd/bus.ts'
import { SystemdBus } from '../../src/host/systemd/systemd-bus.ts'
import { SystemdUnits } from '../../src/host/systemd/systemd-units.ts'
import { silentLog } from '../../src/log/log.ts'
import { until } from '../contract/until.ts'
import { machineOf } from '../fakes/machine.ts'
import { skip } from './in-lab.ts'
import { poolOn } from './pool-on.ts'

const GUEST = '/srv/guest'
const PROGRAM = `/usr/bin/qemu-system-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}`
const BOOT_MS = 60_000
const id = 'sandboxed' as VmId
const userId = 700_011 as UserId
const never = new AbortController().signal

/** Fetches one of the demo guest's images into the pool. */
async function fetched(pool: Pool, name: string): Promise<Sha256> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(join(GUEST, name))) hash.update(chunk as Buffer)
  const sha256 = hash.digest('hex') as Sha256
  await pool.ensureImage(sha256, { url: new SignedUrl(pathToFileURL(join(GUEST, name)).href) }, never)
  return sha256
}

async function machineIn(pool: Pool, ptsPath: string, changes: Partial<MachineSpec>): Promise<MachineSpec> {
  const [kernel, initrd, rootfsSha256] = await Promise.all([
    fetched(pool, 'vmlinuz'),
    fetched(pool, 'initrd.cpio.gz'),
    fetched(pool, 'rootfs.raw'),
  ])
  const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
  await pool.ensureDisk({ id, userId, sizeMib: 100, rootfsSha256 }, never)
  await pool.ensureSeed(id, userId, renderSeed({ id, instanceId: 'i-1', sshAuthorizedKeys: [] }, sha256))
  const files = pool.files(id, [
    { role: 'kernel', sha256: kernel },
    { role: 'initrd', sha256: initrd },
  ])
  return machineOf(id, {
    userId,
    kernelPath: files.kernel,
    diskPath: files.disk,
    seedPath: files.seed,
    ptsPath,
    ...(files.initrd === undefined ? {} : { initrdPath: files.initrd }),
    ...changes,
  })
}

async function stageOf(t: TestContext) {
  const { reopen } = await poolOn('xfs', t)
  const pool = reopen({ localImagesDirectory: GUEST })
  const runDirectory = '/run/vmhostd-test'
  const bus = new SystemdBus({ log: silentLog, addresses: [PRIVATE_SOCKET] })
  const units = new SystemdUnits({ bus, log: silentLog, runDirectory })
  const console = ConsoleMaster.open(silentLog)
  const monitor = new QemuMonitor({
    program: PROGRAM,
    accelerator: 'tcg',
    runDirectory: `${runDirectory}/vm`,
    log: silentLog,
  })
  t.after(async () => {
    monitor.close()
    await units.ensureStopped(id, never)
    console.close()
    bus.close()
  })
  return {
    monitor,
    units,
    start: async (changes: Partial<MachineSpec> = {}) => {
      const machine = await machineIn(pool, console.path, changes)
      await units.ensureStarted(id, monitor.unitSpec(machine), never)
      return machine
    },
    said: () => Buffer.from(console.output.since(0).bytes).toString(),
  }
}

test(
  'a guest boots from its own disk in its sandbox, reads its seed, and runs as its user',
  { skip },
  async (t) => {
    const { monitor, units, start, said } = await stageOf(t)
    const machine = await start({ startPaused: true })
    await until(
      () => monitor.inspect(id),
      (state) => state.kind === 'paused',
    )
    assert.equal(said(), '')
    const written = statSync(machine.diskPath).mtimeMs
    await monitor.ensureRunning(id, never)
    const output = await until(said, (text) => text.includes('demo guest ready'), BOOT_MS)
    assert.match(output, /EXT4-fs \(vda\): mounted/)
    assert.match(output, /demo guest ready: sandboxed/)
    assert.ok(statSync(machine.diskPath).mtimeMs > written, 'mounting its disk wrote nothing to it')
    const unit = await units.inspect(id)
    assert.ok(unit.kind === 'active')
    const status = readFileSync(`/proc/${unit.mainPid}/status`, 'utf8')
    assert.match(status, /^Uid:\t700011\t700011\t700011\t700011$/m)
    assert.match(status, /^CapEff:\t0+$/m)
    assert.match(status, /^Seccomp:\t2$/m)
    const resident = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
    assert.ok(resident < monitor.unitSpec(machine).memoryMaxBytes)
  },
)

test('a guest whose kernel panics is over, and so is its unit', { skip }, async (t) => {
  const { units, start, said } = await stageOf(t)
  await start({ kernelArguments: 'init=/nonexistent rdinit=/nonexistent root=/dev/none' })
  const state = await until(
    () => units.inspect(id),
    ({ kind }) => kind !== 'active',
    BOOT_MS,
  )
  assert.equal(state.kind, 'absent')
  assert.match(said(), /Kernel panic/)
})
