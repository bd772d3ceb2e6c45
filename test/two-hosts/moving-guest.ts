/** A guest that counts for a client and moves between both hosts, with the route to it. */
import assert from 'node:assert/strict'
import { atEnd } from '../contract/at-end.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { CountingClient } from './counting-client.ts'
import { hasArrived, offer, seen, take } from './move.ts'
import { Pinger } from './pinger.ts'
import { routeGuest } from './roads.ts'
import type { TestContext } from 'node:test'
import type { BothHosts } from './both-hosts.ts'
import type { LabHost } from './lab-host.ts'
import type { Move } from './move.ts'

const SEND_EVERY_MS = 20
/** Answers before and after each move. */
const ANSWERS = 50
const DISK = (vm: string): string => `/var/lib/vmhostd/pool/disks/${vm}/disk.raw`

/** A host keeps the ids of migrations for longer than one run of these tests. */
const RUN = Date.now().toString(36)
let moves = 0

export class MovingGuest {
  readonly id: string
  readonly address: string
  client: CountingClient
  /** Where the guest is now, and where it goes next. */
  here: LabHost
  there: LabHost

  private constructor(id: string, address: string, client: CountingClient, hosts: BothHosts) {
    this.id = id
    this.address = address
    this.client = client
    this.here = hosts.first
    this.there = hosts.second
  }

  /** Boots it at the first host, and connects the client. */
  static async boot(id: string, address: string, hosts: BothHosts): Promise<MovingGuest> {
    const { first } = hosts
    const request = guestRequest({
      network: { ipv4_address: address, ipv6_address: ipv6Of(address) },
      root: first.root,
    })
    await first.controller.mutate('PUT', `/v1/vms/${id}`, request)
    await first.controller.settled(id, 'running')
    await routeGuest(address, first)
    return new MovingGuest(id, address, await CountingClient.open(address), hosts)
  }

  /** The next move of it, which the controller has not requested yet. */
  nextMove(changes: Partial<Move> = {}): Move {
    moves += 1
    return { vm: this.id, migration: `move-${RUN}-${moves}`, from: this.here, to: this.there, ...changes }
  }

  /** Requests a move. */
  async begin(changes: Partial<Move> = {}): Promise<Move> {
    const move = this.nextMove(changes)
    await offer(move)
    await take(move)
    return move
  }

  /** Waits until it has arrived in this state, and routes its packets there. */
  async arrives(state: string): Promise<void> {
    const { id, here, there } = this
    await seen(there, id, hasArrived, 120_000)
    await routeGuest(this.address, there)
    await there.controller.settled(id, state)
    this.here = there
    this.there = here
  }

  /** Lets the controller forget it at the host that it has left, so that it can return there. */
  async forgetBehind(): Promise<void> {
    await this.there.controller.remove(this.id)
  }

  /** Connects the client again, to a guest that has booted. */
  async reconnect(): Promise<void> {
    this.client.close()
    this.client = await CountingClient.open(this.address)
  }

  talk(): void {
    this.client.talk(SEND_EVERY_MS)
  }

  hears(): Promise<void> {
    return this.client.hears(ANSWERS)
  }

  ping(t: TestContext): Pinger {
    const pinger = new Pinger(this.here, this.address)
    atEnd(t, () => pinger.kill())
    return pinger
  }

  /** Returns the SHA-256 of its disk where it is now. */
  async diskDigest(): Promise<string> {
    return (await this.here.run('sha256sum', DISK(this.id))).split(' ')[0] ?? ''
  }

  /** Asserts that exactly one host has a monitor of it. */
  async assertOnlyHere(): Promise<void> {
    const unit = `vmhost-${this.id}`
    const pids = async (host: LabHost): Promise<string> =>
      host.run('systemctl', 'show', '--value', '--property=MainPID', unit)
    assert.notEqual(await pids(this.here), '0', `${this.id} does not run at ${this.here.node}`)
    assert.equal(await pids(this.there), '0', `${this.id} runs at ${this.there.node} too`)
  }
}

/** Returns the IPv6 address of the guest that has this IPv4 address. */
export const ipv6Of = (ipv4: string): string => `2001:db8:5::${ipv4.split('.').at(-1)}`
