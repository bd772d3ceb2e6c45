import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SignedUrl } from '../src/core/outbound/signed-url.ts'
import { Store } from '../src/store/store.ts'
import type { TestContext } from 'node:test'
import type { PackedPart, PackPoint, SnapshotId, StagingId } from '../src/core/snapshots/record.ts'
import type { Desired, Image } from '../src/core/desired.ts'
import type { OperationId, Sha256, UserId, VmId } from '../src/core/ids.ts'
import type { NewSnapshot } from '../src/store/snapshots/snapshot-table.ts'

/** User ids of the VMs of a stage. */
export const range = { first: 600_000, count: 100 }
const MIB = 1024 * 1024

export const sha256Of = (digit: string): Sha256 => digit.repeat(64) as Sha256

/** A store in a directory of its own, and the records put into it. */
export class StoreStage {
  readonly directory = mkdtempSync(join(tmpdir(), 'vmhostd-store-'))
  store = new Store(this.directory, range)

  constructor(t: TestContext) {
    t.after(() => {
      this.store.close()
      rmSync(this.directory, { recursive: true })
    })
  }

  /**
   * Opens the store as the next process finds it, after `meanwhile` changed its files. `isClosed`:
   * an earlier try failed.
   */
  reopen(meanwhile: () => void = () => {}, { isClosed = false } = {}): void {
    if (!isClosed) this.store.close()
    meanwhile()
    this.store = new Store(this.directory, range)
  }

  /** Opens the store as the next process finds it after this one was killed. */
  crash(): void {
    const names = ['vmhostd.db', 'vmhostd.db-wal'] as const
    const left = names.map(
      (name) => [join(this.directory, name), readFileSync(join(this.directory, name))] as const,
    )
    this.reopen(() => {
      for (const [path, bytes] of left) writeFileSync(path, bytes)
    })
  }

  insertVm(id: string, image: Image, nowMs = 1000): VmId {
    const desired: Desired = {
      power: 'running',
      compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
      disk: { sizeMib: 64 },
      image,
    }
    this.store.vms.insert({
      id: id as VmId,
      userId: this.store.vms.freeUserId() as UserId,
      monitor: 'qemu',
      desired,
      metadata: { labels: {}, protected: false },
      inputs: { request: '{}', sources: new Map(), sshAuthorizedKeys: [] },
      operationId: 'op-1' as OperationId,
      nowMs,
    })
    return id as VmId
  }

  removeVm(id: VmId, nowMs: number): void {
    this.store.vms.changeDesired(id, { deleting: true, operationId: 'op-2' as OperationId, nowMs })
    this.store.vms.forget(id, nowMs)
  }

  insertSnapshot(id: string, changes: Partial<NewSnapshot> = {}): SnapshotId {
    this.store.snapshots.insert({
      id: id as SnapshotId,
      vmId: 'web-1' as VmId,
      vmCreatedAtMs: 1,
      stagingId: `${id}.op-1` as StagingId,
      partMib: 5,
      urls: { firstPart: 1, parts: [] },
      operationId: 'op-1' as OperationId,
      nowMs: 1000,
      ...changes,
    })
    return id as SnapshotId
  }
}

/**
 * Returns the part with that number, of 5 MiB each made of 10 MiB of the image, and the point where packing continues.
 */
export function packed(number: number): readonly [PackedPart, PackPoint] {
  const part: PackedPart = {
    number,
    offsetBytes: (number - 1) * 5 * MIB,
    bytes: 5 * MIB,
    imageBytes: 10 * MIB,
    md5: String(number).padStart(32, '0'),
    sha256: String(number).padStart(64, '0'),
  }
  return [part, { imageBytes: number * 10 * MIB, storedBytes: number * 5 * MIB }]
}

export const urlOf = (what: string): SignedUrl => new SignedUrl(`https://store.example/key?${what}`)
