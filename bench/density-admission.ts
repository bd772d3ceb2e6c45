/**
 * Counts the VMs that a host takes. The daemon is the real one, from its API with mutual TLS to its store, its ledger
 * and its workers. The host below it is the stand-in of the tests, because a host of this size is not at hand.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { clientsOf } from '../src/api/controller/clients.ts'
import { bindControllerApi } from '../src/api/controller/controller-api.ts'
import { qemuMemoryMib } from '../src/core/monitor/qemu-command.ts'
import { newOperationId } from '../src/log/log.ts'
import { Store } from '../src/store/store.ts'
import { composed, settingsWith } from '../test/composed.ts'
import {
  COMMON_NAME,
  createBody,
  exchange,
  makePki,
  SHA,
  writePki,
} from '../test/daemon/support/controller-host.ts'
import { FakeClock } from '../test/fakes/fake-clock.ts'
import { FakeFigures } from '../test/fakes/fake-figures.ts'
import { FakeHost } from '../test/fakes/fake-host.ts'
import { progress } from './measurement.ts'
import type { Composition } from '../src/daemon/compose.ts'
import type { Sha256 } from '../src/core/ids.ts'
import type { Pki } from '../test/daemon/support/controller-host.ts'

const HOST_MIB = 64 * 1024
const GUEST_MIB = 512
/** One of this many VMs stays awake. */
const AWAKE_ONE_IN = 20
const USER_IDS = { first: 600_000, count: 50_000 }
const IDLE_SECONDS = 1
/** Longer than the whole count takes on the clock of the host. */
const DAY_SECONDS = 86_400
/** A pool that is not what is short. */
const POOL_MIB = 1e9
const LOOKS_MAX = 200

type Stage = {
  readonly parts: Composition
  readonly store: Store
  readonly clock: FakeClock
  readonly create: (index: number) => Promise<{ readonly status: number; readonly code: unknown }>
}

export type Admitted = { readonly vms: number; readonly asleep: number; readonly hostMib: number }

/** Creates VMs until the host refuses one although all but one of twenty sleep. */
export async function admittedAt(sleepRatio: number): Promise<Admitted> {
  const pki = await makePki()
  const directory = mkdtempSync(join(tmpdir(), 'density-'))
  const store = new Store(directory, USER_IDS, { datasync: async () => {} })
  try {
    return await onHost(pki, { directory, store, sleepRatio })
  } finally {
    store.close()
    rmSync(directory, { recursive: true })
  }
}

async function onHost(
  pki: Pki,
  { directory, store, sleepRatio }: { directory: string; store: Store; sleepRatio: number },
): Promise<Admitted> {
  const clock = new FakeClock()
  const host = new FakeHost(clock, store.storeId)
  // The stand-in's own monitor takes nothing.
  host.monitors.qemu.memoryMib = (guestMib) => qemuMemoryMib(guestMib, 'kvm')
  const figures = new FakeFigures()
  figures.memoryMib = { totalMib: HOST_MIB, availableMib: HOST_MIB }
  figures.poolMib = { totalMib: POOL_MIB, availableMib: POOL_MIB }
  const settings = settingsWith({ capacity: { memorySleepRatio: sleepRatio } })
  const parts = composed({ store, host, figures, settings, newOperationId })
  await parts.inspector.start()
  await parts.reconciler.start()
  const { version, log } = parts.api
  const bound = await bindControllerApi({
    address: '127.0.0.1',
    port: 0,
    clients: clientsOf(COMMON_NAME, []),
    tlsFiles: writePki(directory, pki),
    nodeFiles: { certificate: join(directory, 'node.crt') },
    version,
    log,
  })
  const api = await bound.serve(parts.api)
  const { certificate: cert, key } = pki.controller
  const agent = new Agent({ keepAlive: true })
  const client = { ca: pki.authority.certificate, cert, key, agent }
  putImages(host)
  const create: Stage['create'] = async (index) => {
    const path = `/v1/vms/vm-${String(index).padStart(5, '0')}`
    const { status, json } = await exchange(api.port, { method: 'PUT', path, body: requestOf(index), client })
    return { status, code: json?.code }
  }
  try {
    return await fill({ parts, store, clock, create })
  } finally {
    parts.inspector.stop()
    await parts.reconciler.stop()
    agent.destroy()
    await api.close(0)
  }
}

/** Creates a few VMs at a time, and lets them fall asleep. */
async function fill(stage: Stage): Promise<Admitted> {
  let vms = 0
  for (;;) {
    const before = vms
    let refused = false
    while (!refused && vms - before < AWAKE_ONE_IN) {
      const { status, code } = await stage.create(vms)
      refused = status === 409 && code === 'insufficient_capacity'
      if (!refused && status !== 202) throw new Error(`VM ${vms}: ${status} ${String(code)}`)
      if (!refused) vms += 1
    }
    const asleep = await untilAsleep(stage, vms)
    if (vms === before) return { vms, asleep, hostMib: HOST_MIB }
    if (vms % (5 * AWAKE_ONE_IN) === 0) progress(`${vms} VMs are taken`)
  }
}

const staysAwake = (index: number): boolean => index % AWAKE_ONE_IN === 0

async function untilAsleep({ parts, store, clock }: Stage, vms: number): Promise<number> {
  const sleepers = vms - Math.ceil(vms / AWAKE_ONE_IN)
  for (let look = 0; look < LOOKS_MAX; look += 1) {
    await parts.reconciler.idle()
    const states = store.vms.summaries({}).map(({ state }) => state)
    const asleep = states.filter((state) => state === 'sleeping').length
    if (asleep === sleepers && states.length - asleep === vms - sleepers) return asleep
    clock.advance((IDLE_SECONDS * 1000) / 4)
  }
  throw new Error(`not all of ${sleepers} VMs fell asleep`)
}

const requestOf = (index: number): object =>
  createBody({
    compute: {
      cpu_millicores: 100,
      memory_mib: GUEST_MIB,
      sleep_after_idle_seconds: staysAwake(index) ? DAY_SECONDS : IDLE_SECONDS,
    },
    disk: { size_mib: 64 },
    network: { ipv6_address: `2001:db8:7::${(index + 1).toString(16)}` },
  })

/** Puts the images of the request into the pool. */
function putImages({ storage }: FakeHost): void {
  for (const sha256 of [SHA, 'b'.repeat(64)]) storage.putImage(sha256 as Sha256, 1)
}
