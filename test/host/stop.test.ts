/** Guests that end by themselves: by their agent, by their power button, and not at all. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { getVm, mutate, remove, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { sh } from '../../lab/inside/shell.ts'
import { asleep, sleepAfter } from '../../lab/inside/sleepers.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const VM = 'ends'
const PATH = `/v1/vms/${VM}`
const IPV4 = '192.0.2.60'
/** Longer than any end of a guest on a busy host. */
const GRACE_SECONDS = 120

sharedHost()

const answers = (): Promise<unknown> =>
  until('the guest answers', () => sh('ping', '-c', '1', '-W', '1', IPV4))

async function boots(kernelArguments?: string): Promise<void> {
  const options = kernelArguments === undefined ? {} : { kernelArguments }
  await mutate('PUT', PATH, guestRequest({ network: { ipv4_address: IPV4 }, ...options }))
  await settled(VM, 'running')
  await until('the guest serves its page', () => sh('curl', '--silent', '--fail', `http://${IPV4}/`))
}

const stop = (graceSeconds: number): Promise<unknown> =>
  mutate('PUT', `${PATH}/power`, { state: 'stopped', grace_seconds: graceSeconds })
const howStopped = async (): Promise<string | undefined> => (await getVm(VM)).observed.last_stop?.how

story('a guest with an agent', {
  'it ends when it is asked, and keeps what it has not flushed': async () => {
    await boots()
    await typeInto(VM, 'echo kept > /root/note')
    await stop(GRACE_SECONDS)
    await settled(VM, 'stopped')
    assert.equal(await howStopped(), 'graceful')
    await mutate('PUT', `${PATH}/power`, { state: 'running' })
    await settled(VM, 'running')
    await answers()
    assert.match(await typeInto(VM, 'cat /root/note'), /kept/)
  },
  'it reboots as it is asked, under one generation': async () => {
    const before = (await getVm(VM)).observed.started_at
    await mutate('POST', `${PATH}/reboot`, { grace_seconds: GRACE_SECONDS })
    const { observed, desired } = await settled(VM, 'running')
    assert.equal(await howStopped(), 'graceful')
    assert.notEqual(observed.started_at, before)
    assert.equal(desired.power, 'running')
    await answers()
  },
  'it is woken to end': async () => {
    await sleepAfter(VM, 1, 256)
    await asleep(VM)
    await stop(GRACE_SECONDS)
    await settled(VM, 'stopped')
    const { observed } = await getVm(VM)
    assert.deepEqual([observed.last_stop?.how, observed.saved_state], ['graceful', undefined])
    assert.equal(observed.last_wake?.reason, 'power')
  },
  'it goes': () => remove(VM),
})

test('a guest without an agent ends at its power button', async () => {
  await boots('demo.ends=button')
  await stop(GRACE_SECONDS)
  await settled(VM, 'stopped')
  assert.equal(await howStopped(), 'graceful')
  await remove(VM)
})

story('a guest that does not end by itself', {
  'it is stopped hard when its time is over': async () => {
    await boots('demo.ends=never')
    await stop(2)
    await settled(VM, 'stopped')
    assert.equal(await howStopped(), 'deadline')
  },
  'a stop without grace ends its time': async () => {
    await mutate('PUT', `${PATH}/power`, { state: 'running' })
    await settled(VM, 'running')
    await stop(GRACE_SECONDS)
    await until('the guest was asked', async () =>
      (await getVm(VM)).observed.waiting_for === 'the guest to end' ? true : undefined,
    )
    await mutate('PUT', `${PATH}/power`, { state: 'stopped' })
    await settled(VM, 'stopped')
    assert.equal(await howStopped(), 'hard')
  },
  'it goes': () => remove(VM),
})
