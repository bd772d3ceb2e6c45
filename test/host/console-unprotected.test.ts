/**
 * A running VM whose console master is not kept by systemd: the API names it, and a stop and a start protect it again.
 */
import assert from 'node:assert/strict'
import { closeSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { call, getVm, mutate, setPower, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { crashDaemon, mainPid, sh, unitProperty } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { errno, library } from '../../src/host/ffi/koffi.ts'
import { sharedHost } from './shared-host.ts'

const VM = 'bare-console'
const UNIT = `vmhost-${VM}`
const DROP_IN = '/run/systemd/system/vmhostd.service.d'
const PIDFD_OPEN = 434
const PIDFD_GETFD = 438

const syscall = library('libc.so.6').func('long syscall(long number, long a, long b, long c)')

type Sync = { readonly consoles: { readonly unprotected: readonly string[] } }

const unprotected = async (): Promise<readonly string[]> =>
  ((await call('GET', '/v1/sync')).body as unknown as Sync).consoles.unprotected

sharedHost({
  make: async () => {
    await mutate('PUT', `/v1/vms/${VM}`, guestRequest())
    await settled(VM, 'running')
  },
  remove: async () => {
    rmSync(DROP_IN, { recursive: true, force: true })
    await sh('systemctl', 'daemon-reload')
  },
})

/** Finds the daemon's descriptor of the master of a terminal (proc_pid_fdinfo(5)). */
function masterIn(pid: number, terminal: string): number {
  const number = terminal.replace('/dev/pts/', '')
  const isMaster = (fd: string): boolean =>
    new RegExp(`^tty-index:\\s+${number}$`, 'm').test(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))
  return Number(readdirSync(`/proc/${pid}/fd`).find(isMaster))
}

/** Keeps the terminal of the VM from hanging up while the daemon is away. */
async function holdMaster(): Promise<number> {
  const pid = Number(await mainPid('vmhostd'))
  const master = masterIn(pid, await unitProperty(UNIT, 'TTYPath'))
  const pidfd = syscall(PIDFD_OPEN, pid, 0, 0) as number
  const held = syscall(PIDFD_GETFD, pidfd, master, 0) as number
  assert.ok(held >= 0, `pidfd_getfd: errno ${errno()}`)
  closeSync(pidfd)
  return held
}

/**
 * Drops the master as one of the daemon's own processes could. The daemon is stopped meanwhile, because it would store
 * the master again.
 */
async function dropFromStore(): Promise<void> {
  mkdirSync(DROP_IN, { recursive: true })
  writeFileSync(`${DROP_IN}/notify.conf`, '[Service]\nNotifyAccess=all\n')
  await sh('systemctl', 'daemon-reload')
  await sh('systemctl', 'kill', '--signal=STOP', 'vmhostd')
  const group = await unitProperty('vmhostd', 'ControlGroup')
  const say = `echo $$ > /sys/fs/cgroup${group}/cgroup.procs; NOTIFY_SOCKET=/run/systemd/notify systemd-notify FDSTOREREMOVE=1 FDNAME=console-${VM}; true`
  await sh('sh', '-c', say)
  await until('systemd has dropped the master', async () =>
    (await unitProperty('vmhostd', 'NFileDescriptorStore')) === '0' ? true : undefined,
  )
}

test('a guest that ended with its console says so', async () => {
  await dropFromStore()
  await sh('systemctl', 'kill', '--signal=KILL', 'vmhostd')
  const { observed } = await until('the end is noted', async () => {
    const vm = await getVm(VM)
    return vm.observed.fault?.code === 'vm_exited' ? vm : undefined
  })
  assert.match(observed.error ?? '', /its console was closed \(SIGHUP\)/)
  await settled(VM, 'running')
})

test('a running VM without a stored console is named until it is stopped and started', async () => {
  assert.deepEqual(await unprotected(), [])
  const held = await holdMaster()
  const guest = await mainPid(UNIT)
  await dropFromStore()
  await crashDaemon()
  assert.equal(await mainPid(UNIT), guest, 'the guest ended with the daemon')
  assert.deepEqual(await unprotected(), [VM])
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', '--lines=200')
  assert.match(log, new RegExp(`"vm_ids":\\["${VM}"\\]`))
  const { observed } = await getVm(VM)
  assert.ok(observed.partial_faults?.some(({ code }) => code === 'console_unprotected'))
  assert.equal((await call('GET', `/v1/vms/${VM}/console`)).status, 409)

  await setPower(VM, 'stopped')
  await settled(VM, 'stopped')
  closeSync(held)
  await setPower(VM, 'running')
  await settled(VM, 'running')
  assert.deepEqual(await unprotected(), [])
  assert.equal((await getVm(VM)).observed.partial_faults, undefined)
  assert.equal(await unitProperty('vmhostd', 'NFileDescriptorStore'), '1')
})
