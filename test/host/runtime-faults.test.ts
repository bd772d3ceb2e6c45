/**
 * The installed daemon when the runtime and the unit disagree: each fault is reported, no step is hasty, and all
 * recovers.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { test } from 'node:test'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { QmpClient } from '../../src/host/qemu/qmp.ts'
import { atEnd } from '../contract/at-end.ts'
import { sharedHost } from './shared-host.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const POOL = '/var/lib/vmhostd/pool'
const socketOf = (id: string): string => `/run/vmhostd/vm/${id}/qmp.sock`

const MUTE = 'mute'
const MUTE_ADDRESS = '192.0.2.50'
let mutePid: string

sharedHost({
  make: async () => {
    await create(MUTE, { network: { ipv4_address: MUTE_ADDRESS } })
    await answers(MUTE_ADDRESS)
    mutePid = await mainPid(`vmhost-${MUTE}`)
    // A monitor counts as unreachable after half a minute; the first tests run meanwhile, and end no daemon.
    await withoutDaemon(async () => rmSync(socketOf(MUTE)))
  },
})

const create = async (id: string, options: Parameters<typeof guestRequest>[0] = {}): Promise<Vm> => {
  await mutate('PUT', `/v1/vms/${id}`, guestRequest(options))
  return settled(id, 'running')
}

const answers = (address: string): Promise<true> =>
  until<true>(`${address} answers`, async () => {
    await sh('ping', '-c', '1', '-W', '1', address)
    return true
  })

type PartialFault = { readonly code: string; readonly step: string; readonly detail: string }

/** Faults of the last inspection of a VM, each as `step: code`; `error` names them all. */
async function found(id: string): Promise<readonly string[]> {
  const { observed } = await getVm(id)
  const { partial_faults: faults = [] } = observed as { partial_faults?: readonly PartialFault[] }
  for (const { step, detail } of faults) {
    assert.ok(
      observed.error?.includes(`${step}: ${detail}`),
      `${step}: ${detail} is not in ${observed.error}`,
    )
  }
  return faults.map(({ step, code }) => `${step}: ${code}`).toSorted()
}

/** Waits until exactly these faults are reported for a VM. */
const finds = (id: string, ...faults: readonly string[]): Promise<true> =>
  until<true>(`${id} shows ${faults.join(' and ')}`, async () => {
    const shown = await found(id)
    if (shown.join() !== faults.toSorted().join()) throw new Error(`it shows ${shown.join(' and ')}`)
    return true
  })

const plan = (id: string): Promise<string> => sh('vmhostd', 'plan', id)

/** Returns the daemon's log lines about a VM. */
const logged = async (id: string): Promise<readonly string[]> =>
  (await sh('journalctl', '--unit=vmhostd', '--output=cat'))
    .split('\n')
    .filter((line) => line.includes(`"vm_id":"${id}"`))

/** Runs an action while no daemon runs. */
async function withoutDaemon(doing: () => Promise<unknown>): Promise<void> {
  await sh('systemctl', 'stop', 'vmhostd')
  try {
    await doing()
  } finally {
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
  }
}

/** Returns the VM's device: it is named after the user that owns the VM's disk. */
const deviceOf = async (id: string): Promise<string> =>
  `vmt${(await sh('stat', '-c', '%u', `${POOL}/disks/${id}/disk.raw`)).trim()}`

/** Makes a file system on which every write waits in the kernel, out of reach of SIGKILL, until it is thawed. */
async function frozenFileSystem(): Promise<{ readonly path: string; readonly thaw: () => Promise<void> }> {
  const folder = mkdtempSync('/var/tmp/frozen-')
  const path = `${folder}/mnt`
  mkdirSync(path)
  await sh('truncate', '--size=16M', `${folder}/image`)
  await sh('mkfs.ext4', '-q', '-F', `${folder}/image`)
  await sh('mount', '-o', 'loop', `${folder}/image`, path)
  await sh('fsfreeze', '--freeze', path)
  let frozen = true
  const thaw = async (): Promise<void> => {
    if (!frozen) return
    frozen = false
    await sh('fsfreeze', '--unfreeze', path)
    await until('the file system is free', async () => (await sh('umount', path), true))
    rmSync(folder, { recursive: true })
  }
  return { path, thaw }
}

/** Leaves a process in the control group of a VM whose unit is gone, stuck in the kernel. */
async function leaveStuckProcess(id: string, path: string): Promise<number> {
  const group = `/sys/fs/cgroup/vmhost.slice/vmhost-${id}.service`
  mkdirSync(group, { recursive: true })
  const command = `echo $$ > ${group}/cgroup.procs && exec touch ${path}/file`
  const { pid } = spawn('/bin/sh', ['-c', command], { stdio: 'ignore' })
  await until('the process is stuck', async () =>
    / \(touch\) D /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')) ? true : undefined,
  )
  return pid ?? 0
}

test('a left-over process of a VM is reported and ended, and only then is the VM started', async () => {
  const id = 'left'
  await create(id)
  await setPower(id, 'stopped')
  await settled(id, 'stopped')
  const { path, thaw } = await frozenFileSystem()
  try {
    const pid = await leaveStuckProcess(id, path)
    await setPower(id, 'running')
    await finds(id, 'unit.inspect: processes_left')
    const because = `the unit is gone, yet processes are left in its control group: ${pid}`
    assert.match(await plan(id), new RegExp(`^act\n  unit\\.ensure-stopped because ${because}$`, 'm'))
    assert.equal(await mainPid(`vmhost-${id}`), '0', 'the VM was started over what is left of it')
    await thaw()
    await settled(id, 'running')
    assert.ok(!existsSync(`/proc/${pid}/exe`))
  } finally {
    await thaw()
  }
  await remove(id)
  assert.ok(!existsSync(`/sys/fs/cgroup/vmhost.slice/vmhost-${id}.service`))
})

test('a deleted device and a deleted table are repaired while the pool is hidden', async () => {
  const [id, address] = ['blind', '192.0.2.52']
  await create(id, { network: { ipv4_address: address } })
  await answers(address)
  const pid = await mainPid(`vmhost-${id}`)
  const device = await deviceOf(id)
  await sh('mount', '-t', 'tmpfs', 'tmpfs', POOL)
  try {
    await sh('nft', 'delete', 'table', 'inet', 'vmhostd')
    await sh('ip', 'link', 'delete', device)
    await answers(address)
    await finds(id, 'storage.inspect: storage_inspection_failed')
    assert.match(await sh('nft', 'list', 'table', 'inet', 'vmhostd'), new RegExp(device))
    assert.match(await plan(id), /blocked at storage\.inspect with storage_inspection_failed/)
  } finally {
    await sh('umount', '--lazy', POOL)
  }
  await settled(id, 'running')
  assert.equal(await mainPid(`vmhost-${id}`), pid, 'the guest was restarted')
  await remove(id)
})

test('an unreachable monitor is reported, its guest runs on, and a stop and a start repair it', async () => {
  await finds(MUTE, 'monitor.inspect: monitor_unreachable')
  const because = 'the unit is active, but its monitor has not answered for 30 s'
  assert.match(
    await plan(MUTE),
    new RegExp(`^blocked at monitor\\.inspect with monitor_unreachable because ${because}$`, 'm'),
  )
  const { body } = await call('GET', `/v1/vms/${MUTE}/plan`)
  assert.equal((body as unknown as { outcome: string }).outcome, 'blocked')
  assert.equal(await mainPid(`vmhost-${MUTE}`), mutePid, 'the guest was ended')
  await answers(MUTE_ADDRESS)
  await setPower(MUTE, 'stopped')
  await settled(MUTE, 'stopped')
  assert.equal(await mainPid(`vmhost-${MUTE}`), '0')
  await setPower(MUTE, 'running')
  await settled(MUTE, 'running')
})

test('a guest that has ended in a live unit is reported, ended, and started again', async () => {
  const id = `over-${process.pid}`
  await create(id)
  const first = await mainPid(`vmhost-${id}`)
  await withoutDaemon(async () => {
    const monitor = await QmpClient.connect(socketOf(id))
    // The guest reboots, which ends it in this system, and the monitor stays.
    await monitor.execute('set-action', { reboot: 'shutdown', shutdown: 'pause' })
    await monitor.execute('system_reset')
    await until('the guest is over', async () => {
      const { status } = (await monitor.execute('query-status')) as { status: string }
      return status === 'shutdown' ? true : undefined
    })
    monitor.close()
  })
  await until('the end of the guest is logged', async () =>
    (await logged(id)).some(
      (line) =>
        line.includes('"code":"vm_exited"') &&
        line.includes('the guest has ended: its monitor says shutdown'),
    )
      ? true
      : undefined,
  )
  await until('another monitor runs', async () =>
    ['0', first].includes(await mainPid(`vmhost-${id}`)) ? undefined : true,
  )
  await settled(id, 'running')
  await remove(id)
})

test('a missing disk and a taken device are both reported, and repaired under the guest', async (t) => {
  const [id, address] = ['twice', '192.0.2.51']
  await create(id, { network: { ipv4_address: address } })
  await answers(address)
  const pid = await mainPid(`vmhost-${id}`)
  const device = await deviceOf(id)
  const disk = `${POOL}/disks/${id}/disk.raw`
  atEnd(t, () =>
    sh('sh', '-c', `if ip link show type bridge | grep -q ${device}; then ip link delete ${device}; fi`),
  )
  // Otherwise the daemon would make the device again first.
  await withoutDaemon(async () => {
    renameSync(disk, `${disk}.away`)
    await sh('ip', 'link', 'delete', device)
    await sh('ip', 'link', 'add', device, 'type', 'bridge')
  })
  await finds(id, 'storage.inspect: disk_missing', 'network.inspect: network_failed')
  renameSync(`${disk}.away`, disk)
  await finds(id, 'network.inspect: network_failed')
  assert.match(await plan(id), /blocked at network\.ensure-tap with tap_name_taken/)
  await sh('ip', 'link', 'delete', device)
  await settled(id, 'running')
  await answers(address)
  assert.equal(await mainPid(`vmhost-${id}`), pid, 'the guest was restarted')
  await remove(id)
})
