/** The installed daemon on a real host: the actions of an operator, and of the host. */
import assert from 'node:assert/strict'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { echo } from '../../lab/inside/first-packets.ts'
import { guestImage, guestRequest } from '../../lab/inside/guest.ts'
import {
  anotherDaemon,
  crashDaemon,
  mainPid,
  ready,
  sh,
  unitProperty,
  upgradeDaemon,
} from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { limits } from '../../src/config/limits.ts'
import { adoptionReport } from './adoption-report.ts'
import { sharedHost } from './shared-host.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const KEEPER = 'keeper'
const ADDRESS = '192.0.2.30'
const POOL = '/var/lib/vmhostd/pool'
const QEMU = '/usr/bin/qemu-system-x86_64'

/** Runs over the whole file: this guest must not notice anything that happens to the daemon. */
let keeperPid: string
let keeperSaid = ''

sharedHost({
  make: async () => {
    await mutate('PUT', `/v1/vms/${KEEPER}`, guestRequest({ network: { ipv4_address: ADDRESS } }))
    await settled(KEEPER, 'running')
    await until('the guest answers', () => ping())
    keeperSaid = ''
    keeperPid = await mainPid(`vmhost-${KEEPER}`)
  },
})

const ping = async (): Promise<true> => {
  await sh('ping', '-c', '1', '-W', '1', ADDRESS)
  return true
}

const create = (id: string, options: Parameters<typeof guestRequest>[0] = {}): Promise<Vm> =>
  mutate('PUT', `/v1/vms/${id}`, guestRequest(options))

/** Waits until a VM shows a fault of this code. */
const faulted = (id: string, code: string): Promise<Vm> =>
  until(`${id} shows ${code}`, async () => {
    const vm = await getVm(id)
    return vm.observed.fault?.code === code ? vm : undefined
  })

/** Checks that the guest of the whole file still runs as the same process, and that the daemon has its console. */
async function assertKept(): Promise<void> {
  await ready()
  assert.equal(await mainPid(`vmhost-${KEEPER}`), keeperPid, 'the guest was restarted')
  await echo(ADDRESS)
  assert.match(await sh('vmhostd', 'plan', KEEPER), /settled/)
  const stored = Number(await unitProperty('vmhostd', 'NFileDescriptorStore'))
  assert.ok(stored >= 1, 'the console master is not stored')
  const said = await sh('vmhostd', 'console', KEEPER, '--raw')
  assert.ok(said.length > 0 && said.startsWith(keeperSaid), 'the history of the console is gone')
  keeperSaid = said
}

async function restarted(how: () => Promise<unknown>): Promise<void> {
  const earlier = await mainPid('vmhostd')
  await how()
  await anotherDaemon(earlier)
  await assertKept()
}

test('a restart of the daemon stops no guest', () => restarted(() => sh('systemctl', 'restart', 'vmhostd')))

test('a stop and a start of the daemon stop no guest', async () => {
  await sh('systemctl', 'stop', 'vmhostd')
  await echo(ADDRESS)
  await restarted(() => sh('systemctl', 'start', 'vmhostd'))
})

test('a killed daemon comes back by itself and stops no guest', () => restarted(crashDaemon))

test('a re-execution of systemd stops no guest', async () => {
  await sh('systemctl', 'daemon-reexec')
  await assertKept()
  await restarted(() => sh('systemctl', 'restart', 'vmhostd'))
})

test('an upgrade of the package restarts the daemon and stops no guest', () => restarted(upgradeDaemon))

test('the executable prints its version and that it can use the descriptor store', async () => {
  const text = await sh('vmhostd', 'version')
  assert.match(text, /^vmhostd \d+\.\d+\.\d+$/m)
  assert.match(text, /^node v26\./m)
  assert.match(text, /^descriptor_store=supported$/m)
})

test('an executable that cannot use the descriptor store says why, and fails', async () => {
  const library = (await sh('sh', '-c', 'ldconfig -p | sed -n "s/.*libsystemd.so.0 .*=> //p"')).trim()
  const hidden = ['--mount', 'sh', '-c', `mount --bind /dev/null ${library} && vmhostd version`]
  await assert.rejects(sh('unshare', ...hidden), (error: Error & { code?: number; stdout?: string }) => {
    assert.equal(error.code, 1)
    assert.match(error.stdout ?? '', /^descriptor_store=unsupported: ./m)
    return true
  })
})

test('the daemon reports after a start what it adopted', async () => {
  await restarted(() => sh('systemctl', 'restart', 'vmhostd'))
  const report = await adoptionReport()
  assert.equal(report['descriptor_store_available'], true)
  assert.equal(report['adopted_console_count'], report['running_unit_count'])
})

test("the installed unit is set up as the daemon's check of the descriptor store wants it", async () => {
  const names = ['NotifyAccess', 'FileDescriptorStoreMax', 'FileDescriptorStorePreserve']
  const values = await Promise.all(names.map((name) => unitProperty('vmhostd', name)))
  assert.deepEqual(values, ['main', '4096', 'yes'])
  assert.match(await unitProperty('vmhostd', 'WantedBy'), /\bvmhost\.slice\b/)
})

test('a monitor that its guest has taken over cannot fill /run', async () => {
  const user = (await sh('stat', '-c', '%u', `${POOL}/disks/${KEEPER}/disk.raw`)).trim()
  const directory = `/run/vmhostd/vm/${KEEPER}`
  const asUser = (...command: readonly string[]): Promise<string> =>
    sh('setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups', ...command)
  const mib = String(limits.monitorRuntimeMib + 1)
  const fill = asUser('dd', 'if=/dev/zero', `of=${directory}/fill`, 'bs=1M', `count=${mib}`)
  await assert.rejects(fill, /No space left on device/)
  writeFileSync('/run/of-another', Buffer.alloc(4096))
  await asUser('rm', `${directory}/fill`)
  rmSync('/run/of-another')
})

test('D-Bus may disappear and come back', async () => {
  await sh('systemctl', 'stop', 'dbus.socket', 'dbus.service')
  try {
    await create('bus')
    await sh('systemctl', 'start', 'dbus.socket', 'dbus.service')
    await settled('bus', 'running')
  } finally {
    await sh('systemctl', 'start', 'dbus.socket', 'dbus.service')
    await remove('bus')
  }
  await assertKept()
})

test('a VM goes through its power states, and its process with it', async () => {
  await create('power')
  await settled('power', 'running')
  const unit = 'vmhost-power.service'
  await setPower('power', 'paused')
  await settled('power', 'paused')
  const paused = await mainPid(unit)
  await setPower('power', 'running')
  await settled('power', 'running')
  assert.equal(await mainPid(unit), paused, 'a pause and a resume keep the process')
  await setPower('power', 'stopped')
  await settled('power', 'stopped')
  assert.equal(await mainPid(unit), '0')
  await setPower('power', 'paused')
  await settled('power', 'paused')
  assert.equal(await unitProperty(unit, 'Slice'), 'vmhost.slice')
  assert.equal(await unitProperty(unit, 'CPUQuotaPerSecUSec'), '1s')
  await remove('power')
})

test('a deletion leaves nothing on the host', async () => {
  const address = '192.0.2.31'
  await create('leaver', { network: { ipv4_address: address, ipv6_address: '2001:db8::31' } })
  await settled('leaver', 'running')
  assert.match(await sh('nft', 'list', 'table', 'inet', 'vmhostd'), /192\.0\.2\.31/)
  await remove('leaver')
  assert.doesNotMatch(await sh('nft', 'list', 'table', 'inet', 'vmhostd'), /192\.0\.2\.31/)
  assert.doesNotMatch(await sh('ip', 'route'), /192\.0\.2\.31/)
  assert.equal((await sh('ls', `${POOL}/disks`)).trim(), KEEPER)
  assert.equal(
    (await sh('ls', '/sys/class/net')).split(/\s+/).filter((name) => name.startsWith('vmt')).length,
    1,
  )
  assert.equal(await unitProperty('vmhostd', 'NFileDescriptorStore'), '1')
  assert.equal(
    (await sh('systemctl', 'list-units', '--all', '--no-legend', 'vmhost-leaver.service')).trim(),
    '',
  )
})

test('a guest whose kernel does not boot fails with a message, and is tried again with back-off', async () => {
  // Compressed data can be anything, so only the monitor finds that it is not a kernel.
  await create('bootless', { image: { kernel: guestImage('initrd.cpio.gz') } })
  const { observed, generations } = await faulted('bootless', 'vm_exited')
  assert.equal(observed.state, 'failed')
  assert.match(observed.error ?? '', /monitor ended/)
  assert.ok(generations.observed <= generations.desired)
  await until('a second attempt', async () =>
    ((await getVm('bootless')).observed.fault?.attempt ?? 0) >= 2 ? true : undefined,
  )
  await remove('bootless')
})

test('a monitor that is not installed is a fault that ends when it is installed', async () => {
  renameSync(QEMU, `${QEMU}.away`)
  try {
    await create('monitorless')
    const { observed } = await faulted('monitorless', 'monitor_missing')
    assert.match(observed.error ?? '', /qemu-system/)
  } finally {
    renameSync(`${QEMU}.away`, QEMU)
  }
  await settled('monitorless', 'running')
  await remove('monitorless')
})

test("a device name taken by someone else's device is a fault, and the device is left alone", async () => {
  await create('probe', { power: 'stopped' })
  await settled('probe', 'stopped')
  const last = Number(/last_user_id=(\d+)/.exec(await lastUserId())?.[1])
  await remove('probe')
  const device = `vmt${last + 1}`
  await sh('ip', 'link', 'add', device, 'type', 'bridge')
  try {
    await create('named', { network: { ipv4_address: '192.0.2.32' } })
    const { observed } = await faulted('named', 'tap_name_taken')
    assert.match(observed.error ?? '', new RegExp(device))
    assert.match(await sh('ip', '-details', 'link', 'show', device), /bridge/)
  } finally {
    await sh('ip', 'link', 'delete', device)
  }
  await settled('named', 'running')
  await remove('named')
})

/** Returns the user id of the newest VM before its unit exists: the owner of its disk. */
const lastUserId = async (): Promise<string> =>
  `last_user_id=${(await sh('stat', '-c', '%u', `${POOL}/disks/probe/disk.raw`)).trim()}`

test('a read-only pool is a fault that ends with its cause, and a stop does not wait for it', async () => {
  await create('writer')
  await settled('writer', 'running')
  // Guests have their disks open, so the file system itself cannot become read-only; a mount over it can.
  await sh('mount', '--bind', POOL, POOL)
  await sh('mount', '--options', 'remount,bind,ro', POOL)
  try {
    await create('reader')
    const { observed } = await faulted('reader', 'storage_read_only')
    assert.equal(observed.state, 'failed')
    await setPower('writer', 'stopped')
    await until('the stopped VM has no process', async () =>
      (await mainPid('vmhost-writer')) === '0' ? true : undefined,
    )
  } finally {
    await sh('umount', '--lazy', POOL)
  }
  await settled('reader', 'running')
  await Promise.all([remove('reader'), remove('writer')])
  await assertKept()
})

test('an image that does not match its digest is a fault, and is never kept', async () => {
  const sha256 = 'd'.repeat(64)
  await create('liar', { image: { kernel: { ...guestImage('vmlinuz'), sha256 } } })
  const { observed } = await faulted('liar', 'image_integrity_failed')
  assert.equal(observed.state, 'failed')
  assert.ok(!(await sh('ls', `${POOL}/images`)).includes(sha256))
  await remove('liar')
})

test("a unit stopped behind the daemon's back is seen at once, and the VM started again", async () => {
  await create('victim')
  await settled('victim', 'running')
  const first = await mainPid('vmhost-victim')
  await sh('systemctl', 'stop', 'vmhost-victim')
  await faulted('victim', 'vm_exited')
  await settled('victim', 'running')
  assert.notEqual(await mainPid('vmhost-victim'), first)
  await remove('victim')
})

test('a VM is stopped during its start, and deleted during its start', async () => {
  await create('hasty')
  await setPower('hasty', 'stopped')
  await settled('hasty', 'stopped')
  assert.equal(await mainPid('vmhost-hasty'), '0')
  await setPower('hasty', 'running')
  await remove('hasty')
  assert.equal(await mainPid('vmhost-hasty'), '0')
})

test('a daemon killed at any moment of a creation completes it after the restart', async () => {
  const moments = Array.from({ length: 8 }, (_, index) => index * 40)
  for (const [index, ms] of moments.entries()) {
    const id = `reborn-${index}`
    await create(id, { network: { ipv4_address: `192.0.2.${100 + index}` } })
    await sh('sleep', String(ms / 1000))
    await restarted(crashDaemon)
    await settled(id, 'running')
    await remove(id)
  }
})

test('a second daemon on the same state directory refuses to start, with a message', async () => {
  const config = '/tmp/second.toml'
  const text = readFileSync('/etc/vmhostd/config.toml', 'utf8')
  writeFileSync(
    config,
    text.replace(/^#port = 9000$/m, 'port = 9010').replace(/^#enabled = true$/m, 'enabled = false'),
  )
  await assert.rejects(sh('vmhostd', 'serve', '--config', config), { stderr: /another vmhostd works on/ })
  await assertKept()
})

test('a second daemon on the same port refuses to start, with a message', async () => {
  await assert.rejects(sh('vmhostd', 'serve'), { stderr: /another program has port 9000/ })
  await assertKept()
})

test('secrets of a VM are in no log line', async () => {
  const canary = 'CANARY4711'
  await mutate('PUT', '/v1/vms/secret', {
    ...guestRequest({
      image: { kernel: { url: `https://192.0.2.99/k?X-Amz-Signature=${canary}`, sha256: 'e'.repeat(64) } },
    }),
    user_data: `#cloud-config\npassword: ${canary}\n`,
  })
  await faulted('secret', 'image_unavailable')
  const { body } = await call('GET', '/v1/vms/secret')
  assert.ok(!JSON.stringify(body).includes(canary))
  assert.ok(!(await sh('journalctl', '--boot', '--output=export')).includes(canary))
  await remove('secret')
})
