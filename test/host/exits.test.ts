/** Ends of real guests by themselves: reboot, panic, power-off, and what the installed daemon makes of each. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { makeBare } from '../../lab/inside/bare.ts'
import { leave, view } from '../../lab/inside/console.ts'
import { call, getVm, mutate, ready, setPower, settled } from '../../lab/inside/controller.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { sh, unitProperty } from '../../lab/inside/shell.ts'
import { sleeper, sleeperRequest } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'
import { skipWithoutFirecracker } from './with-firecracker.ts'
import type { Vm } from '../../lab/inside/controller.ts'

const one = sleeper('exits', 40)
const { id, ipv4 } = one
const PATH = `/v1/vms/${id}`

sharedHost()

/** Types a line that its guest may not live to answer. */
async function say(name: string, line: string): Promise<void> {
  const viewer = await view(name)
  viewer.socket.send(Buffer.from(`\r${line}\r`))
  await viewer.reached(viewer.received() + 1)
  await leave(viewer)
}

/** Waits for an exit after the one of `before`. */
const exited = (name: string, before?: Vm): Promise<Vm> =>
  until(`the guest of ${name} has ended`, async () => {
    const vm = await getVm(name)
    const { last_exit: last } = vm.observed
    return last !== undefined && last.at !== before?.observed.last_exit?.at ? vm : undefined
  })

/** Waits until the guest serves its page in another life than `bootId`. */
const served = (bootId?: string): Promise<string> =>
  until('the guest serves its page', async () => {
    const page = await servedPage(ipv4)
    return page.bootId === bootId ? undefined : page.bootId
  })

/** Returns the output of a console session that is over. */
async function lastOutput(): Promise<string> {
  let text = ''
  const { socket } = await view(id, { onOutput: (chunk) => (text += chunk.toString()) })
  if (socket.readyState !== socket.CLOSED) await once(socket, 'close')
  return text
}

let bootId = ''
let last: Vm | undefined

story('a guest of Linux ends in each way', {
  'it boots': async () => {
    await mutate('PUT', PATH, sleeperRequest(one, { sleepAfterIdleSeconds: 0 }))
    await settled(id, 'running')
    bootId = await served()
    assert.equal((await getVm(id)).observed.last_exit, undefined)
  },
  'it reboots, and goes on without a fault': async () => {
    await say(id, 'reboot -f')
    last = await exited(id)
    const { cause, console } = last.observed.last_exit ?? {}
    assert.equal(cause, 'rebooted')
    assert.match(console?.join('\n') ?? '', /reboot: Restarting system/)
    assert.equal(last.observed.fault, undefined)
    bootId = await served(bootId)
    const { observed } = await settled(id, 'running')
    assert.deepEqual([observed.restarts, observed.fault], [1, undefined])
  },
  'it panics, which is a fault, and is started again later': async () => {
    await say(id, 'echo c > /proc/sysrq-trigger')
    last = await exited(id, last)
    assert.equal(last.observed.last_exit?.cause, 'panicked')
    assert.equal(last.observed.fault?.code, 'vm_exited')
    bootId = await served(bootId)
    assert.equal((await settled(id, 'running')).observed.restarts, 2)
  },
  'it powers off under a policy that lets it rest, and its console can still be read': async () => {
    await mutate('PUT', `${PATH}/exit`, { restart_policy: 'on_failure' })
    await say(id, 'poweroff -f')
    last = await exited(id, last)
    assert.equal(last.observed.last_exit?.cause, 'powered_off')
    assert.equal((await settled(id, 'stopped')).observed.fault, undefined)
    assert.match(await lastOutput(), /Linux version[^]*reboot: Power down/)
    await sh('systemctl', 'restart', 'vmhostd')
    await ready()
    assert.match(await lastOutput(), /reboot: Power down/)
    assert.equal((await getVm(id)).observed.state, 'stopped')
  },
  'a request for its power starts it again, with a console of its own': async () => {
    await setPower(id, 'running')
    await settled(id, 'running')
    bootId = await served(bootId)
  },
  'it powers off while no daemon runs, and the next one knows why': async () => {
    await say(id, '(sleep 3; poweroff -f) &')
    await sh('systemctl', 'stop', 'vmhostd')
    await until('the guest has ended', async () =>
      (await unitProperty(`vmhost-${id}`, 'ActiveState')) === 'inactive' ? true : undefined,
    )
    await sh('systemctl', 'start', 'vmhostd')
    await ready()
    last = await exited(id, last)
    assert.equal(last.observed.last_exit?.cause, 'powered_off')
    await settled(id, 'stopped')
  },
  'it is deleted when it ends, if it should be': async () => {
    await setPower(id, 'running')
    await settled(id, 'running')
    await served(bootId)
    await mutate('PUT', `${PATH}/exit`, { restart_policy: 'never', delete_on_exit: true })
    await settled(id, 'running')
    await say(id, 'poweroff -f')
    await until('it is gone', async () => ((await call('GET', PATH)).status === 404 ? true : undefined))
  },
})

for (const [index, monitor] of (['qemu', 'firecracker'] as const).entries()) {
  const skip = monitor === 'qemu' ? false : skipWithoutFirecracker
  const bare = sleeper(`bare-exit-${monitor}`, 42 + index)
  test(
    `${monitor}: a guest that ends without a word rests under the policy never, and is deleted some time after`,
    { skip: skipWithoutBareGuest === false ? skip : skipWithoutBareGuest },
    async () => {
      await makeBare(bare, { monitor })
      await mutate('PUT', `/v1/vms/${bare.id}/exit`, { restart_policy: 'never' })
      await say(bare.id, 'reboot')
      assert.equal((await exited(bare.id)).observed.last_exit?.cause, 'unknown')
      await settled(bare.id, 'stopped')
      await mutate('PUT', `/v1/vms/${bare.id}/exit`, { delete_after_seconds: 1 })
      await until('it is gone', async () =>
        (await call('GET', `/v1/vms/${bare.id}`)).status === 404 ? true : undefined,
      )
    },
  )
}

test('a VM that is stopped by a request is deleted some time after that, and not before', async () => {
  const stopped = sleeper('delete-after', 44)
  await makeBare(stopped, { monitor: 'qemu' })
  await mutate('PUT', `/v1/vms/${stopped.id}/exit`, { delete_after_seconds: 2 })
  await settled(stopped.id, 'running')
  await setPower(stopped.id, 'stopped')
  await settled(stopped.id, 'stopped')
  await until('it is gone', async () =>
    (await call('GET', `/v1/vms/${stopped.id}`)).status === 404 ? true : undefined,
  )
})
