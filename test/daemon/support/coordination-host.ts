import { mkdtempSync, rmSync } from 'node:fs'
import { Agent } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCoordinationApi } from '../../../src/api/coordination/coordination-api.ts'
import { createLog } from '../../../src/log/logger.ts'
import { readAsset } from '../../../src/daemon/assets.ts'
import { COMMON_NAME, send, writePki } from './controller-host.ts'
import { err, ok } from '../../../src/lib/result.ts'
import type { RequestOptions } from 'node:https'
import type { TestContext } from 'node:test'
import type { MacAddress, Sha256, VmId } from '../../../src/core/ids.ts'
import type { Departures } from '../../../src/api/coordination/dependencies.ts'
import type { RevocationState } from '../../../src/api/listener/revocations.ts'
import type { MigrationId } from '../../../src/core/migration/offer.ts'
import type { Manifest } from '../../../src/core/vm/manifest.ts'
import type { CertificatePair } from '../../../src/daemon/setup/certificates.ts'
import type { Answer, Call, ControllerHost, Pki } from './controller-host.ts'

const shape = {
  compute: { cpuMillicores: 1500, memoryMib: 512, sleepAfterIdleSeconds: 0 },
  disk: { sizeMib: 2048, iopsMax: 500 },
  network: { macAddress: '02:00:5e:10:00:01' as MacAddress, ipv4Address: '192.0.2.10' },
}

export const manifest: Manifest = {
  migrationId: 'move-web-1' as MigrationId,
  vmId: 'web-1' as VmId,
  stage: 'offered',
  mode: 'live',
  power: 'running',
  monitor: { program: 'qemu-system-x86_64', version: '10.0.2', accelerator: 'tcg', form: 'mapped' },
  processor: { vendor: 'emulated', features: [] },
  ...shape,
  expiresAtMs: Date.UTC(2030, 0, 1),
  vm: {
    desired: {
      power: 'running',
      image: { rootfsSha256: 'a'.repeat(64) as Sha256, kernelSha256: 'b'.repeat(64) as Sha256, rebuild: 3 },
      readiness: { protocol: 'http', port: 80, path: '/healthz' },
      exit: { restartPolicy: 'on_failure', deleteAfterSeconds: 60, deleteOnExit: true },
      instance: 2,
      ...shape,
    },
    metadata: { labels: { env: 'prod' }, protected: true },
    createdAtMs: Date.UTC(2029, 0, 1),
    inputs: { request: '{}', userData: '#cloud-config', sshAuthorizedKeys: ['ssh-ed25519 AAAA ops'] },
    sshHostKey: 'SHA256:uNiVztksCsDhcc0u9e8BrBYn1tYcoFTCqfEVcC1WbC0',
    monitor: 'qemu',
    daemonSshKey: 'ssh-ed25519 AAAA vmhostd@host-1',
    lastTrafficAtMs: Date.UTC(2029, 0, 2),
    keepAwakeUntilMs: Date.UTC(2029, 0, 3),
    exitStreak: 1,
  },
}

export type CoordinationHost = {
  readonly port: number
  readonly files: ControllerHost['files']
  readonly logLines: string[]
  /** The node of the one offer, and what the host answers to it. */
  offer: { node: string; read: () => Manifest }
  storeIsOpen: boolean
  waitingFor: string[]
  /** The revocation lists of the listener. */
  lists: () => RevocationState | undefined
  /** Sends a request as the node `host-2`, unless the call has a client of its own. */
  call(call: Call): Promise<Answer>
  close(boundMs: number): Promise<void>
}

/** Returns options for a client with a certificate, without kept connections. */
export const clientWith = (pki: Pki, pair: CertificatePair, more: RequestOptions = {}): RequestOptions => ({
  ca: pki.authority.certificate,
  cert: pair.certificate,
  key: pair.key,
  agent: new Agent({ keepAlive: false }),
  ...more,
})

/** Starts the coordination API on loopback with real TLS, for the nodes of one authority. */
export async function startCoordinationHost(
  t: TestContext,
  pki: Pki,
  /** Offers a VM of its own, unless the test gives the VMs. */
  source?: Departures,
  { revocations }: { readonly revocations?: string } = {},
): Promise<CoordinationHost> {
  const directory = mkdtempSync(join(tmpdir(), 'coordination-'))
  const files = writePki(directory, pki, revocations)
  const logLines: string[] = []
  const state = {
    offer: { node: 'host-2', read: () => manifest },
    storeIsOpen: true,
    waitingFor: [] as string[],
    lists: (): RevocationState | undefined => undefined,
  }
  const none = async () => err('unknown' as const)
  const departures: Departures = source ?? {
    manifest: async ({ id, node }) =>
      id === manifest.migrationId && node === state.offer.node ? ok(state.offer.read()) : err('unknown'),
    ensureRound: none,
    handOver: none,
    release: none,
    abort: none,
    reads: { roundFrames: none, memoryFrames: none, image: none, console: none, heldPackets: none },
  }
  const node = await pki.issue({ commonName: 'host-2', usages: ['server', 'client'] })
  const api = await createCoordinationApi({
    dependencies: {
      departures: () => (state.storeIsOpen ? departures : undefined),
      waitingFor: () => state.waitingFor,
      errorsMarkdown: () => readAsset('errors.md'),
      watchLists: (lists) => (state.lists = lists),
      version: '1.2.3',
      log: createLog({ level: 'debug', write: (line) => logLines.push(line) }).child({
        listener: 'coordination',
      }),
    },
    address: '127.0.0.1',
    port: 0,
    clientNames: new Set([COMMON_NAME, 'reader-1', 'vmhost-metrics']),
    tlsFiles: files,
    certificateRecheckMs: 20,
  })
  let closed = false
  const close = async (boundMs: number): Promise<void> => {
    closed = true
    await api.close(boundMs)
  }
  t.after(async () => {
    if (!closed) await close(0)
    rmSync(directory, { recursive: true })
  })
  const call = async (given: Call): Promise<Answer> =>
    send(api.port, { client: clientWith(pki, node), api: 'coordination', ...given })
  return Object.assign(state, { port: api.port, files, logLines, call, close })
}
