/** The console of a real guest over every way in which its daemon ends and comes back. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Follower } from '../../lab/inside/console.ts'
import { mutate, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { crashDaemon, mainPid, ready, sh, unitProperty, upgradeDaemon } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { hasRoom } from './tty-room.ts'
import { sharedHost } from './shared-host.ts'

const VM = 'talker'
const UNIT = `vmhost-${VM}`
/**
 * Counts endlessly, as fast as the guest's shell can. The guest's kernel writes nothing in between
 * (proc_sys_kernel(5)).
 */
const COUNT = 'echo 1 >/proc/sys/kernel/printk; i=0; while :; do i=$((i+1)); echo "line $i."; done'
const KILLS = 5

let guestPid: string
let following: Promise<void>
/** Output after the last line end. */
let rest = ''
/** Lines so far that are not the next number. */
const others: string[] = []
let counted = 0
/** Rejects at the first of them. */
let unexpected = Promise.withResolvers<never>()
unexpected.promise.catch(() => {})
let follower: Follower

function take(text: string): void {
  const lines = `${rest}${text}`.split('\r\n')
  rest = lines.pop() ?? ''
  for (const line of lines) {
    if (line === `line ${counted + 1}.`) counted += 1
    else {
      others.push(line)
      unexpected.reject(new Error(`after line ${counted} came ${JSON.stringify(line)}`))
    }
  }
}

sharedHost({
  make: async () => {
    rest = ''
    counted = 0
    others.length = 0
    await mutate('PUT', `/v1/vms/${VM}`, guestRequest())
    await settled(VM, 'running')
    guestPid = await mainPid(UNIT)
    follower = new Follower(VM, take)
    following = follower.follow()
    await until('the guest is ready', async () =>
      others.some((line) => line.startsWith('demo guest ready')) ? true : undefined,
    )
    follower.type(`${COUNT}\r`)
    await goesOn()
    // The boot, and the echo of the typed input.
    others.length = 0
    unexpected = Promise.withResolvers<never>()
    unexpected.promise.catch(() => {})
  },
  remove: async () => {
    follower.end()
    await following
  },
})

async function goesOn(lines = 500): Promise<void> {
  const target = counted + lines
  await until('the guest goes on counting', async () => (counted >= target ? true : undefined))
}

/** Checks that the guest is the same, that it continues, and that its whole output has come, each line once. */
async function assertWhole(): Promise<void> {
  await ready()
  // After a lost or doubled line no later one counts, so waiting for more would hide what came.
  await Promise.race([goesOn(), unexpected.promise])
  assert.equal(await mainPid(UNIT), guestPid, 'the guest was restarted')
  assert.deepEqual(others, [])
  assert.equal(follower.lostBytes, 0)
}

async function overAnotherLife(end: () => Promise<unknown>): Promise<void> {
  const { lives } = follower
  await end()
  await until('the viewer is back', async () => (follower.lives > lives ? true : undefined))
  await assertWhole()
}

test('no byte is lost or doubled over a restart of the daemon', () =>
  overAnotherLife(() => sh('systemctl', 'restart', 'vmhostd')))

test('no byte is lost or doubled when the daemon is killed repeatedly', async () => {
  for (let kill = 0; kill < KILLS; kill += 1) await overAnotherLife(crashDaemon)
})

test('no byte is lost or doubled over an upgrade of the package', () => overAnotherLife(upgradeDaemon))

test('a guest waits with output that the pty cannot hold while the daemon is stopped, and then continues', () =>
  overAnotherLife(async () => {
    const terminal = await unitProperty(UNIT, 'TTYPath')
    await sh('systemctl', 'stop', 'vmhostd')
    try {
      await until('the guest waits', async () => (hasRoom(terminal) ? undefined : true))
    } finally {
      await sh('systemctl', 'start', 'vmhostd')
    }
  }))
