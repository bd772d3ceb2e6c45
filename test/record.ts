import { GATEWAY_MAC } from '../src/core/network/tap.ts'
import type { World, VmMark } from '../src/core/world/world.ts'
import type {
  DeviceName,
  Generation,
  MacAddress,
  OperationId,
  Sha256,
  UserId,
  VmId,
} from '../src/core/ids.ts'
import type { VmRecord } from '../src/core/vm/record.ts'

/** Mark of that VM, in the store of tests. */
export const markOfTests: VmMark = { storeId: 'store-1', createdAtMs: 1000 }

/** Returns a running VM as the store has it, for tests to vary. */
export const recordOf = (changes: Partial<VmRecord> = {}): VmRecord => ({
  id: 'web-1' as VmId,
  host: { userId: 600_000 as UserId, device: 'vmt600000' as DeviceName },
  monitor: 'qemu',
  desired: {
    power: 'running',
    compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
    disk: { sizeMib: 64 },
    image: { rootfsSha256: 'a'.repeat(64) as Sha256, kernelSha256: 'b'.repeat(64) as Sha256 },
    network: { macAddress: '02:76:00:09:27:c0' as MacAddress, ipv4Address: '192.0.2.10' },
  },
  metadata: { labels: {}, protected: false },
  deleting: false,
  generations: { desired: 2 as Generation, observed: 1 as Generation },
  powerGeneration: 2 as Generation,
  stops: { accepted: 0, carriedOut: 0 },
  operationId: 'op-1' as OperationId,
  observed: { state: 'running', sinceMs: 1500 },
  exitStreak: 0,
  revision: 3,
  createdAtMs: 1000,
  updatedAtMs: 2000,
  ...changes,
})

/** Returns a host on which that VM runs and all is well. */
export const worldOf = (changes: Partial<World> = {}): World => ({
  unit: { known: true, value: { kind: 'active', mainPid: 42, startedAtMs: 1500, mark: markOfTests } },
  console: { known: true, value: { kind: 'stored', ptsPath: '/dev/pts/3' } },
  monitor: { known: true, value: { kind: 'running', disk: { sizeMib: 64 } } },
  storage: {
    known: true,
    value: {
      disk: {
        kind: 'present',
        sizeMib: 64,
        note: { mark: markOfTests, rootfsSha256: 'a'.repeat(64) as Sha256 },
        usableBy: 600_000 as UserId,
      },
      seed: { kind: 'present', digest: 'seed', usableBy: 600_000 as UserId },
      missingImages: [],
      unfitImages: [],
    },
  },
  tap: {
    known: true,
    value: {
      kind: 'present',
      facts: {
        owner: 600_000,
        macAddress: GATEWAY_MAC,
        up: true,
        attached: true,
        bandwidth: {},
        settings: {},
        addresses: [],
        routes: [],
        neighbours: [],
      },
    },
  },
  firewall: { known: true, value: { kind: 'intact' } },
  saved: { known: true, value: { kind: 'absent' } },
  traffic: {
    known: true,
    value: { kind: 'watched', frames: 'flowing', packets: 7, idleMs: 0, heldFrames: 0 },
  },
  ...changes,
})
