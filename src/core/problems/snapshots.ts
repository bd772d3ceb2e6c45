import type { Entries } from './entry.ts'

/** Problems of snapshots: their capture, their staging and their upload. */
export const snapshots = {
  rejections: {
    snapshot_failed: {
      status: 409,
      title: 'The snapshot has failed for good',
      meaning: 'The snapshot has failed for good; `error` in it says why.',
      remedy: 'Delete it and take another one.',
      example: 'nightly-1 has failed for good: VM web-1 was deleted before its disk was captured',
      writtenBy: ['src/commands/snapshots/snapshots.ts', 'src/owners/snapshots/capture.ts'],
      advice: ['vmhostctl snapshot rm {name}, then take another one'],
    },
    upload_differs: {
      status: 409,
      title: 'The URLs are of another multipart upload than the sent parts',
      meaning:
        'Parts of the snapshot were sent to one multipart upload, and a URL of the request names another `uploadId`. A store makes no object of the parts of two uploads.',
      remedy:
        'Sign URLs for the upload that has the parts. To begin another upload, delete the snapshot and take another one.',
      example: 'part_urls/2 is of another multipart upload than the parts that were sent',
      writtenBy: ['src/commands/snapshots/snapshots.ts'],
      advice: [
        'sign URLs for the upload that has the parts, by its UploadId; nothing that was sent is sent again',
        'to begin another upload: vmhostctl snapshot rm {name}, then take another one',
      ],
    },
    snapshots_full: {
      status: 409,
      title: 'The host has reached its limit of snapshots',
      meaning: 'The host has 10,000 snapshots on record, or 256 MiB of URLs for them; `detail` says which.',
      remedy:
        'Delete those that have ended. URLs go by themselves as snapshots end; hand over fewer at a time.',
      example: 'this host has 10000 snapshots on record: delete those that have ended',
      writtenBy: ['src/commands/snapshots/snapshots.ts'],
      advice: ['vmhostctl snapshot ls --status completed shows what can go'],
    },
  },
  faults: {
    snapshot_unsupported: {
      retry: 'backoff',
      title: 'The storage pool cannot share blocks, so no disk is captured',
      meaning:
        'The file system of the storage pool cannot share blocks, and a copy would keep the guest paused for its whole length.',
      remedy: 'Put the pool on XFS or btrfs.',
      example: 'capturing the disk of VM web-1',
      writtenBy: ['src/host/staging/pool-staging.ts'],
    },
    vm_gone: {
      retry: 'on-change',
      title: 'The VM was deleted before its disk was captured',
      remedy: 'Nothing; delete the snapshot.',
      example: 'VM web-1 was deleted before its disk was captured',
      writtenBy: ['src/owners/snapshots/capture.ts'],
    },
    vm_unsettled: {
      retry: 'backoff',
      title: 'The disk is not captured while something of the VM is under way',
      meaning:
        'Something of the VM is under way, such as a stop, a wake or a guest whose monitor does not answer, so that its disk cannot be captured yet. The error says what. It is tried again when the VM changes, and now and then.',
      remedy: 'If it stays: `GET /v1/vms/{id}` shows what is wrong with the VM.',
      example: 'waiting for VM web-1: its unit is deactivating',
      writtenBy: ['src/owners/snapshots/course.ts', 'src/core/snapshots/capture-moment.ts'],
    },
    staging_lost: {
      retry: 'on-change',
      title: 'What was staged of the snapshot is gone or damaged',
      meaning:
        'What was staged of the snapshot is gone from the pool, or not as it was written: the disk damaged it.',
      remedy: 'See the kernel log for disk errors. Delete the snapshot and take another one.',
      example: 'packing what is staged as nightly-1.op-01b21dd2138040a1b2c3d4e5: a file of it is gone',
      writtenBy: ['src/host/staging/pool-staging.ts'],
    },
    staging_stale: {
      retry: 'on-change',
      title: 'Nothing moved for so long that the staging was removed',
      meaning: 'The snapshot waited for the controller for longer than `snapshots.staging_max_age_hours`.',
      remedy: 'Delete it and take another one.',
      example: 'nothing moved since 2030-01-01T12:00:00.000Z',
      writtenBy: ['src/owners/snapshots/sweep.ts', 'src/owners/snapshots/outcome.ts'],
    },
    upload_urls_expired: {
      retry: 'on-change',
      title: 'The signed URLs have expired',
      meaning:
        'The store refused a signed URL (401 or 403): it has expired, or was signed for something else. The error has the code that the store answered.',
      remedy: 'Hand over fresh ones with `PUT …/upload`. Nothing that was sent is sent again.',
      example: 'part 3: it answered 403 (AccessDenied)',
      writtenBy: [
        'src/owners/snapshots/refusal.ts',
        'src/core/object-store/judge-answer.ts',
        'src/owners/snapshots/course.ts',
      ],
    },
    upload_busy: {
      retry: 'backoff',
      title: 'The store is busy or out of reach',
      meaning:
        'The store is out of reach, answers that it is busy, or takes too long. After many tries the snapshot fails.',
      remedy:
        'See whether the store works. A snapshot that failed for this goes on after `PUT …/upload` with fresh URLs.',
      example: 'part 3: it answered 503 (SlowDown)',
      writtenBy: ['src/owners/snapshots/refusal.ts', 'src/core/object-store/judge-answer.ts'],
    },
    upload_refused: {
      retry: 'on-change',
      title: 'The store refused the upload',
      meaning:
        'The store refused the upload for good. The error has the status and the code it answered. If an earlier completion may have succeeded, and no object shows that it did, the snapshot is resumable.',
      remedy:
        'Look them up in the documentation of the store. `PUT …/upload` lets a resumable snapshot try its completion again, and a `head_url` shows whether the object is there. Else delete the snapshot and take another one.',
      example: 'part 3: it answered 400 (EntityTooLarge)',
      writtenBy: ['src/owners/snapshots/refusal.ts', 'src/core/object-store/judge-answer.ts'],
    },
    upload_gone: {
      retry: 'on-change',
      title: 'The store does not know the upload',
      meaning:
        'The store does not know the upload: it was aborted or completed by somebody else (an object of another size or of other parts is there); or its completion was sent, the answer was lost, and there is no `head_url` to ask, or the store refused two of them.',
      remedy:
        'Look whether the object is there. If the store answers 403 to each `head_url`, its signer lacks `s3:ListBucket`: without it, S3 answers 403 for an object that is not there. Else delete the snapshot and take another one.',
      example: 'the completion: it answered 404 (NoSuchUpload)',
      writtenBy: ['src/owners/snapshots/refusal.ts', 'src/core/object-store/judge-answer.ts'],
    },
    upload_url_not_allowed: {
      retry: 'on-change',
      title: 'The outbound policy of this host does not allow the store',
      meaning:
        "A signed URL, or what it redirects to, points to an address to which this host may not connect: a network of `object_store`'s refusals, or a host that is not allowed.",
      remedy:
        'Use another URL, or `object_store.allowed_hosts` and `allowed_networks` in the configuration; then `PUT …/upload`.',
      example: 'part 3: its host is a loopback address, to which this host may not connect',
      writtenBy: [
        'src/owners/snapshots/refusal.ts',
        'src/host/outbound/outbound-addresses.ts',
        'src/core/outbound/outbound-policy.ts',
      ],
    },
    upload_too_many_parts: {
      retry: 'on-change',
      title: 'The snapshot has more parts than a store takes',
      meaning: 'The compressed image has more than 10,000 parts.',
      remedy: 'Take another snapshot with a larger `part_size_mib`.',
      example: 'more than 10000 parts of 8 MiB: choose larger ones',
      writtenBy: ['src/owners/snapshots/pack.ts'],
    },
  },
} as const satisfies Entries
