import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { run } from './run.ts'
import { HostAddresses } from '../../src/host/figures/host-addresses.ts'
import { LinuxFigures } from '../../src/host/figures/linux-figures.ts'
import { poolIdOf } from '../../src/host/pool/pool-marker.ts'
import { InstalledProgram } from '../../src/host/monitors/installed-program.ts'
import { qemuVersion } from '../../src/host/qemu/qemu-version.ts'
import { errorChain } from '../../src/log/error-chain.ts'
import { RoutedTaps } from '../../src/host/tap/routed-taps.ts'
import { atEnd } from '../contract/at-end.ts'
import { figuresContract } from '../contract/figures.contract.ts'
import { tapSpec } from '../contract/taps-stage.ts'
import { hangAt } from './hung-mount.ts'
import { poolOn } from './pool-on.ts'
import { FakeFigures } from '../fakes/fake-figures.ts'
import type { TestContext } from 'node:test'
import type { LinuxFiguresOptions } from '../../src/host/figures/linux-figures.ts'
import type { MonitorProgram } from '../../src/ports/host-figures.ts'
import type { PoolStage } from './pool-on.ts'

const MIB = 1024 * 1024

function monitorsOf(qemu: string): LinuxFiguresOptions['monitors'] {
  const installed = new InstalledProgram(qemu, qemuVersion)
  return {
    programs: { qemu, firecracker: '/usr/bin/firecracker' },
    offers: () => new FakeFigures().monitors(),
    version: () => installed.version(),
  }
}

async function qemuOf(figures: LinuxFigures): Promise<MonitorProgram> {
  const { monitors } = await figures.machine()
  const qemu = monitors.find(({ kind }) => kind === 'qemu')
  assert.ok(qemu !== undefined)
  return qemu
}

async function figuresOn(
  { directory }: PoolStage,
  t: TestContext,
  options: Partial<LinuxFiguresOptions> = {},
): Promise<{ figures: LinuxFigures; poolId: string }> {
  const poolId = await poolIdOf(directory)
  const monitors = monitorsOf('/usr/bin/qemu-system-x86_64')
  const figures = new LinuxFigures({ poolDirectory: directory, poolId, monitors, ...options })
  atEnd(t, () => figures.close())
  return { figures, poolId }
}

const ip = (...args: string[]): Promise<unknown> => run(['ip', ...args])

figuresContract(
  'figures of this host',
  async (t) => {
    const pool = await poolOn('xfs', t)
    // An address on a link that is down still belongs to the host.
    await ip('link', 'add', 'down0', 'type', 'veth', 'peer', 'name', 'down1')
    atEnd(t, () => ip('link', 'del', 'down0'))
    return {
      ...(await figuresOn(pool, t)),
      setInSight: (inSight) => (inSight ? pool.mount() : pool.unmount()),
      addAddress: async (address) => void (await ip('addr', 'add', address, 'dev', 'down0')),
      removeAddress: async (address) => void (await ip('addr', 'del', address, 'dev', 'down0')),
    }
  },
  { skip },
)

test(
  'addresses that the host relies on count as its own: routers, resolvers, broadcast',
  { skip },
  async (t) => {
    await ip('link', 'add', 'up0', 'type', 'veth', 'peer', 'name', 'up1')
    atEnd(t, () => ip('link', 'del', 'up0'))
    for (const device of ['up0', 'up1']) await ip('link', 'set', device, 'up')
    await ip('addr', 'add', '203.0.113.9/24', 'broadcast', '+', 'dev', 'up0')
    await ip('addr', 'add', '2001:db8:9::9/64', 'dev', 'up0', 'nodad')
    await ip('route', 'add', 'default', 'via', '203.0.113.1')
    await ip('route', 'add', '198.51.100.0/24', 'table', '100', 'via', '203.0.113.2')
    await ip('route', 'add', '192.0.2.0/24', 'nexthop', 'via', '203.0.113.3', 'nexthop', 'via', '203.0.113.4')
    await ip('-6', 'route', 'add', 'default', 'via', '2001:db8:9::1')
    await routeToGuest(t)
    const directory = mkdtempSync(join(tmpdir(), 'resolvers-'))
    atEnd(t, () => rmSync(directory, { recursive: true }))
    const file = join(directory, 'resolv.conf')
    writeFileSync(
      file,
      '# nameserver 203.0.113.70\nsearch example.org\n nameserver  203.0.113.71\nnameserver 2001:DB8::71%up0',
    )
    const addresses = new HostAddresses([join(directory, 'missing'), file])
    atEnd(t, () => addresses.close())
    const read = await addresses.read()
    for (const address of [
      ...['203.0.113.9', '2001:db8:9::9', '203.0.113.255'],
      ...['203.0.113.1', '203.0.113.2', '203.0.113.3', '203.0.113.4', '2001:db8:9::1'],
      ...['203.0.113.71', '2001:db8::71'],
    ]) {
      assert.ok(read.has(address), address)
    }
    for (const address of ['203.0.113.70', '203.0.113.5', '198.51.100.1', '0.0.0.0', '2001:db8:77::10']) {
      assert.ok(!read.has(address), address)
    }
    // Each change counts at once, in whatever way the kernel reports it.
    const has = async (address: string): Promise<boolean> => (await addresses.read()).has(address)
    await ip('nexthop', 'add', 'id', '7', 'via', '203.0.113.6', 'dev', 'up0')
    await ip('route', 'add', '198.51.101.0/24', 'nhid', '7')
    assert.ok(await has('203.0.113.6'))
    await ip('nexthop', 'replace', 'id', '7', 'via', '203.0.113.8', 'dev', 'up0')
    assert.deepEqual([await has('203.0.113.6'), await has('203.0.113.8')], [false, true])
    writeFileSync(file, 'nameserver 203.0.113.72')
    assert.deepEqual([await has('203.0.113.71'), await has('203.0.113.72')], [false, true])
    await ip('link', 'set', 'up0', 'down')
    assert.deepEqual([await has('203.0.113.1'), await has('203.0.113.9')], [false, true])
  },
)

/** Routes a prefix to a guest that has 2001:db8:77::10. */
async function routeToGuest(t: TestContext): Promise<void> {
  const taps = new RoutedTaps({ storeId: 'store-1' })
  atEnd(t, () => taps.close())
  atEnd(t, () => taps.remove(tapSpec.device, tapSpec.vmId))
  await taps.ensure({ ...tapSpec, ipv6Address: '2001:db8:77::10', ipv6Prefix: '2001:db8:78::/64' })
}

async function faultOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => assert.fail('it should have failed'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof HostFault, errorChain(error))
  assert.equal(error.code, 'storage_inspection_failed')
  return errorChain(error)
}

test("the pool's sizes are those of its own file system", { skip }, async (t) => {
  const pool = await poolOn('xfs', t)
  const { figures } = await figuresOn(pool, t)
  const { totalMib, availableMib } = await figures.pool()
  const { blocks, bsize } = statfsSync(pool.mountPoint)
  assert.equal(totalMib, Math.floor((blocks * bsize) / MIB))
  assert.ok(totalMib < 320 && availableMib < totalMib)
  writeFileSync(join(pool.directory, 'tmp', 'filler'), Buffer.alloc(64 * MIB))
  const after = await figures.pool()
  assert.equal(after.totalMib, totalMib)
  assert.ok(availableMib - after.availableMib >= 60, `${availableMib - after.availableMib} MiB less`)
})

test(
  "a directory in the place of the pool that lacks only the pool's mark has no sizes",
  { skip },
  async (t) => {
    const pool = await poolOn('xfs', t)
    const { figures } = await figuresOn(pool, t)
    await pool.unmount()
    for (const name of ['images', 'disks', 'tmp']) await run(['mkdir', '-p', join(pool.directory, name)])
    assert.match(await faultOf(figures.pool()), /^measuring the storage pool: ENOENT/)
    writeFileSync(join(pool.directory, 'vmhostd-pool.json'), '{"pool_id":"another","version":1}')
    assert.match(await faultOf(figures.pool()), /the pool there is another/)
  },
)

test(
  'a pool that lost one of its directories has no sizes: nothing could be stored in it',
  { skip },
  async (t) => {
    const pool = await poolOn('xfs', t)
    const { figures } = await figuresOn(pool, t)
    const disks = join(pool.directory, 'disks')
    renameSync(disks, `${disks}.away`)
    await faultOf(figures.pool())
    renameSync(`${disks}.away`, disks)
    assert.ok((await figures.pool()).totalMib > 0)
  },
)

test('a file system that shut itself down after an error has no sizes', { skip }, async (t) => {
  const pool = await poolOn('xfs', t)
  const { figures } = await figuresOn(pool, t)
  await run(['xfs_io', '-x', '-c', 'shutdown', pool.mountPoint])
  assert.match(await faultOf(figures.pool()), /EIO/)
  await pool.unmount()
  await pool.mount()
  assert.ok((await figures.pool()).totalMib > 0)
})

test(
  'a file system that never answers is a fault in time, costs one thread, and recovers',
  { skip },
  async (t) => {
    const pool = await poolOn('xfs', t)
    const { figures } = await figuresOn(pool, t, { lookMs: 1000 })
    await pool.unmount()
    const hung = await hangAt(pool.mountPoint)
    try {
      const asked = Array.from({ length: 8 }, () => faultOf(figures.pool()))
      const [first = '', ...others] = await Promise.all(asked)
      assert.match(first, /no answer for 1 s/)
      for (const fault of others) assert.match(fault, /no answer for 1 s|an earlier call still has no answer/)
      // The pool is known to hang, so no call waits for it again.
      assert.match(await faultOf(figures.pool()), /an earlier call still has no answer/)
      // Node has four threads for files; if all were taken, this would wait without end.
      assert.equal((await qemuOf(figures)).program, 'qemu-system-x86_64')
      assert.ok((await figures.memory()).totalMib > 0)
    } finally {
      await hung.end()
    }
    await pool.mount()
    assert.ok((await figures.pool()).totalMib > 0)
  },
)

test('the version of the monitor is read again when its program was replaced', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monitor-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const program = join(folder, 'qemu-test')
  const install = (version: string): void => {
    writeFileSync(`${program}.new`, `#!/bin/sh\necho "QEMU emulator version ${version}"\n`)
    chmodSync(`${program}.new`, 0o755)
    renameSync(`${program}.new`, program)
  }
  const { figures } = await figuresOn(await poolOn('xfs', t), t, { monitors: monitorsOf(program) })
  const { program: name, version } = await qemuOf(figures)
  assert.deepEqual([name, version], ['qemu-test', undefined])
  install('9.2.0')
  assert.equal((await qemuOf(figures)).version, '9.2.0')
  install('10.0.2')
  assert.equal((await qemuOf(figures)).version, '10.0.2')
  rmSync(program)
  assert.equal((await qemuOf(figures)).version, undefined)
})
