/**
 * The installed daemon killed on the way to sleep, asleep, and on the way back; and saved states that must not be
 * restored.
 */
import assert from 'node:assert/strict'
import { openSync, closeSync, existsSync, truncateSync, watch, writeSync } from 'node:fs'
import { test } from 'node:test'
import { getVm, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { datagram, exchange } from '../../lab/inside/first-packets.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { crashDaemon, mainPid, ready, sh, unitProperty } from '../../lab/inside/shell.ts'
import { asleep, awake, makeSleeper, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { crashWhenMade, savingFiles } from './crash-at.ts'
import { IDLE_SECONDS, sleeperOfTests } from './sleeper-of-tests.ts'

const one = sleeper('crash', 11)
const { id, ipv4, ipv6 } = one
const life = sleeperOfTests(one)
const DISK = `/var/lib/vmhostd/pool/disks/${id}`
const MEMORY = `${DISK}/saved/memory`

/** Wakes by a request, because a VM that traffic repeatedly wakes soon after it fell asleep sleeps later and later. */
async function wakeByRequest(): Promise<void> {
  const { observed } = await asleep(id)
  await setPower(id, 'running')
  await awake(id, observed.last_wake?.at)
}

test('a packet that comes while the daemon is down is held, and delivered when it is back', async () => {
  await asleep(id)
  await sh('systemctl', 'stop', 'vmhostd')
  const answers = Promise.all([datagram(ipv4), exchange(ipv6)])
  await sh('systemctl', 'start', 'vmhostd')
  await answers
  await life.assertSame()
})

test('a VM that sleeps over a reboot of the host wakes from its memory, on the first packet', async () => {
  const { observed } = await asleep(id)
  await sh('systemctl', 'stop', 'vmhostd')
  await forgetAsRebootDoes()
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
  await asleep(id)
  assert.equal(await mainPid(`vmhost-${id}`), '0')
  // Sent only once: an answer shows that it was delivered, on a host of any speed.
  await datagram(ipv4)
  const { last_wake: wake } = (await awake(id, observed.last_wake?.at)).observed
  assert.equal(wake?.reason, 'traffic')
  assert.equal(wake?.dropped_packets, 0)
  await life.assertSame()
  assert.match(await typeInto(id, 'cat /proc/sys/kernel/random/boot_id', ipv4), new RegExp(life.bootId))
})

/** Removes the state of a sleeping VM that a host loses when it goes down: everything that is not on its disks. */
async function forgetAsRebootDoes(): Promise<void> {
  const tap = /dev (\S+)/.exec(await sh('ip', 'route', 'get', ipv4))?.[1] ?? ''
  await sh('systemctl', 'clean', '--what=fdstore', 'vmhostd')
  assert.equal(await unitProperty('vmhostd', 'NFileDescriptorStore'), '0')
  await sh('umount', '/run/vmhostd/bpf', '/run/vmhostd/vm')
  await sh('rm', '-r', '/run/vmhostd')
  await sh('ip', 'link', 'delete', tap)
  await sh('nft', 'delete', 'table', 'inet', 'vmhostd')
}

test('the idle clock continues over a restart of the daemon', async () => {
  // Long, so that the time that a busy machine takes between two steps is small beside it.
  const idleSeconds = 12
  await exchange(ipv4)
  await sleepAfter(id, idleSeconds)
  await exchange(ipv4)
  await sh('systemctl', 'stop', 'vmhostd')
  await sh('sleep', String(idleSeconds))
  await sh('systemctl', 'start', 'vmhostd')
  await ready()
  const readyAtMs = Date.now()
  const savedAtMs = Date.parse((await asleep(id)).observed.saved_state?.saved_at ?? '')
  // If the clock had been reset, the VM would stay up for its whole timeout.
  assert.ok(savedAtMs - readyAtMs < idleSeconds * 750, `slept ${savedAtMs - readyAtMs} ms after the start`)
  await wakeByRequest()
  await sleepAfter(id, IDLE_SECONDS)
  await life.assertSame()
})

for (const ms of [0, 50, 120, 200]) {
  test(`a daemon killed ${ms} ms after the first packet loses neither packet nor guest`, async () => {
    await asleep(id)
    // Sent only once: the packet waits in the kernel from one daemon to the next.
    await Promise.all([datagram(ipv4), sh('sleep', String(ms / 1000)).then(() => crashDaemon())])
    await life.assertSame()
  })
}

for (const [when, folder, name] of savingFiles(id)) {
  test(`a daemon killed on the way to sleep, ${when}, keeps the guest`, async () => {
    await exchange(ipv4)
    await crashWhenMade(folder, name)
    await life.assertSame()
    await asleep(id)
    assert.equal(await mainPid(`vmhost-${id}`), '0')
    await wakeByRequest()
    await life.assertSame()
  })
}

test('a packet during a save ends the save, and the guest answers', async () => {
  const big = sleeper('crash', 12)
  await makeSleeper(big, { memoryMib: 512, sleepAfterIdleSeconds: 0 })
  await typeInto(
    big.id,
    'mount -o remount,size=300M /tmp; dd if=/dev/urandom of=/tmp/fill bs=1M count=200 2>&1',
  )
  const pid = await mainPid(`vmhost-${big.id}`)
  const folder = `/var/lib/vmhostd/pool/disks/${big.id}/save`
  const { promise, resolve } = Promise.withResolvers<void>()
  const watcher = watch(folder, () => resolve())
  await sleepAfter(big.id, IDLE_SECONDS, 512)
  await promise
  watcher.close()
  await exchange(big.ipv4)
  assert.equal(await mainPid(`vmhost-${big.id}`), pid, 'the guest was saved and woken')
  assert.equal((await getVm(big.id)).observed.last_wake, undefined)
  await asleep(big.id)
  await remove(big.id)
})

type Damage = readonly [what: string, message: RegExp, how: () => void]

const damages: readonly Damage[] = [
  [
    'damaged',
    /checking the saved memory of VM \S+: it is not as it was saved/,
    () => {
      const fd = openSync(MEMORY, 'r+')
      // Past the header of the file, in the content of the guest's memory.
      writeSync(fd, 'not what was saved', 4 * 1024 * 1024)
      closeSync(fd)
    },
  ],
  [
    'truncated',
    /its memory has 1048576 bytes and was saved with \d+; PUT power stopped removes it/,
    () => truncateSync(MEMORY, 1024 * 1024),
  ],
]

for (const [what, message, damage] of damages) {
  test(`a ${what} saved state is refused with a message and kept; PUT power stopped discards it`, async () => {
    await asleep(id)
    damage()
    await setPower(id, 'running')
    const { observed } = await until(`${id} shows saved_state_corrupt`, async () => {
      const vm = await getVm(id)
      return vm.observed.fault?.code === 'saved_state_corrupt' ? vm : undefined
    })
    assert.match(observed.error ?? '', message)
    assert.equal(await unitProperty(`vmhost-${id}`, 'MainPID'), '0')
    assert.ok(existsSync(MEMORY))
    await setPower(id, 'stopped')
    await settled(id, 'stopped')
    assert.ok(!existsSync(MEMORY))
    await setPower(id, 'running')
    life.bootId = (await servedPage(ipv4)).bootId
  })
}
