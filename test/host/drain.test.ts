/** A host that is emptied for maintenance and put back, with bare guests. */
import assert from 'node:assert/strict'
import { bareRequest, firstEcho, lifeOf, makeBare, udpEcho } from '../../lab/inside/bare.ts'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { crashDaemon, mainPid, sh } from '../../lab/inside/shell.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

type Left = { readonly vm_id: string; readonly under_way: boolean }
type Maintenance = { readonly observed_state: string; readonly left: readonly Left[] }

const guests = [61, 62, 63].map((number) => sleeper('drained', number))
const [first, second] = guests as [(typeof guests)[0], (typeof guests)[0]]
const ids = guests.map(({ id }) => id)
const other = sleeper('refused', 64)

sharedHost()

async function set(body: object): Promise<void> {
  const { status, body: answer } = await call('PUT', '/v1/maintenance', body)
  assert.ok(status < 300, JSON.stringify(answer))
}

const look = async (): Promise<Maintenance> =>
  (await call('GET', '/v1/maintenance')).body as unknown as Maintenance

/** Waits until the host is so, and returns the most guests that were seen to come to rest at once. */
async function mostAtOnce(what: string, isSo: (seen: Maintenance) => boolean): Promise<number> {
  let most = 0
  await until(what, async () => {
    const seen = await look()
    most = Math.max(most, seen.left.filter(({ under_way: underWay }) => underWay).length)
    return isSo(seen) ? true : undefined
  })
  return most
}

const isEmpty = ({ observed_state: state }: Maintenance): boolean => state === 'drained'

/** Returns the processes of all units; `0` for one that has none. */
const pids = (): Promise<readonly string[]> => Promise.all(ids.map((id) => mainPid(`vmhost-${id}`)))

const lives = (): Promise<readonly string[]> => Promise.all(ids.map((id) => lifeOf(id)))
let before: readonly string[] = []

story(
  'a host is emptied and put back',
  {
    'a cordoned host takes no VM, and its guests live on': async () => {
      for (const guest of guests) await makeBare(guest)
      before = await lives()
      await set({ state: 'cordoned', reason: 'new kernel' })
      const { status, body } = await call('PUT', `/v1/vms/${other.id}`, bareRequest(other, {}))
      assert.deepEqual([status, (body as unknown as { code: string }).code], [409, 'host_cordoned'])
      await udpEcho(first.ipv4)
    },
    'guests are saved one at a time, over the death of the daemon': async () => {
      await set({ state: 'drained', drain: { guests: 'sleep', at_once: 1 } })
      assert.ok((await mostAtOnce('a guest is at rest', ({ left }) => left.length < ids.length)) <= 1)
      await crashDaemon()
      assert.ok((await mostAtOnce('the host is empty', isEmpty)) <= 1)
      assert.deepEqual(await pids(), ['0', '0', '0'])
      for (const id of ids) assert.equal((await getVm(id)).observed.state, 'sleeping')
    },
    'neither a packet nor a request nor a new daemon wakes a guest': async () => {
      await sh('ping', '-c', '1', '-W', '1', first.ipv4).catch(() => {})
      await setPower(second.id, 'running')
      await crashDaemon()
      const { observed } = await until('the guest waits', async () => {
        const vm = await getVm(second.id)
        return vm.observed.waiting_for === 'the end of maintenance' ? vm : undefined
      })
      assert.equal(observed.state, 'sleeping')
      assert.deepEqual(await pids(), ['0', '0', '0'])
      assert.equal((await look()).observed_state, 'drained')
    },
    'the same guests go on when the host is put back': async () => {
      await set({ state: 'schedulable' })
      for (const id of ids) await settled(id, 'running')
      for (const { ipv4 } of guests) await udpEcho(ipv4)
      assert.deepEqual(await lives(), before)
      assert.equal((await getVm(first.id)).observed.last_wake?.reason, 'maintenance')
    },
    'guests that stop are stopped two at a time, and boot when the host is put back': async () => {
      await set({ state: 'drained', drain: { guests: 'stop', grace_seconds: 1, at_once: 2 } })
      assert.ok((await mostAtOnce('the host is empty', isEmpty)) <= 2)
      assert.deepEqual(await pids(), ['0', '0', '0'])
      const { observed, desired } = await getVm(first.id)
      assert.deepEqual([observed.state, desired.power], ['stopped', 'running'])
      await set({ state: 'schedulable' })
      for (const id of ids) await settled(id, 'running')
      for (const { ipv4 } of guests) await firstEcho(ipv4)
      const after = await lives()
      assert.ok(after.every((life, index) => life !== before[index]))
    },
    'a VM is taken again': async () => {
      await mutate('PUT', `/v1/vms/${other.id}`, bareRequest(other, { power: 'stopped' }))
      for (const id of [...ids, other.id]) await remove(id)
    },
  },
  { skip: skipWithoutBareGuest },
)
