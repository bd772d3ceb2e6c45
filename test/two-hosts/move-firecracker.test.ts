/** A guest of Firecracker that moves to another host with its memory and an open connection. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { bareRequest } from '../../lab/inside/bare.ts'
import { sleeper } from '../../lab/inside/sleepers.ts'
import { atEnd } from '../contract/at-end.ts'
import { skipWithoutFirecracker } from '../host/with-firecracker.ts'
import { skip } from './lab-host.ts'
import { hasArrived, offer, seen, take } from './move.ts'
import { Pinger } from './pinger.ts'
import { routeGuest } from './roads.ts'
import { both, twoHosts } from './two-hosts-stage.ts'
import type { Socket } from 'node:net'

const BOUND_MS = 60_000

twoHosts()

async function echoes(socket: Socket, text: string): Promise<void> {
  socket.write(text)
  const [answer] = (await once(socket, 'data', { signal: AbortSignal.timeout(BOUND_MS) })) as [Buffer]
  assert.equal(answer.toString(), text)
}

test(
  'a running guest of Firecracker moves with its memory, its connection and every packet',
  { skip: skip === false ? skipWithoutFirecracker : skip },
  async (t) => {
    const { first, second } = both()
    const [one, neighbour] = [sleeper('spark', 41), sleeper('spark', 42)]
    const request = { ...bareRequest(one, { monitor: 'firecracker', root: first.root }) }
    // The neighbour has the tap there that the guest has here.
    await second.controller.mutate('PUT', `/v1/vms/${neighbour.id}`, {
      ...bareRequest(neighbour, { power: 'stopped', root: second.root }),
    })
    await first.controller.mutate('PUT', `/v1/vms/${one.id}`, request)
    await first.controller.settled(one.id, 'running')
    await routeGuest(one.ipv4, first)
    const pinger = new Pinger(first, one.ipv4)
    atEnd(t, () => pinger.kill())
    const socket = connect({ host: one.ipv4, port: 7 })
    atEnd(t, () => socket.destroy())
    await once(socket, 'connect', { signal: AbortSignal.timeout(BOUND_MS) })
    await echoes(socket, 'before')
    const move = { vm: one.id, migration: `spark-${Date.now().toString(36)}`, from: first, to: second }
    await offer(move)
    await take(move)
    await seen(second, one.id, hasArrived, 120_000)
    await routeGuest(one.ipv4, second)
    await second.controller.settled(one.id, 'running')
    await echoes(socket, 'after')
    assert.equal((await second.controller.getVm(one.id)).monitor, 'firecracker')
    const { lost, repeated } = await pinger.end()
    assert.deepEqual({ lost, repeated }, { lost: [], repeated: 0 })
  },
)
