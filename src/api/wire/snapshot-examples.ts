/** Examples for the reference. A test checks each against its schema. */

const partUrl = (number: number): string =>
  `https://bucket.example.net/nightly-1.img.zst?partNumber=${number}&uploadId=…&X-Amz-Signature=…`
const completeUrl = 'https://bucket.example.net/nightly-1.img.zst?uploadId=…&X-Amz-Signature=…'
const headUrl = 'https://bucket.example.net/nightly-1.img.zst?X-Amz-Signature=…'

export const exampleStartSnapshot = {
  vm_id: 'web-1',
  upload: {
    part_size_mib: 64,
    part_urls: [partUrl(1), partUrl(2)],
    complete_url: completeUrl,
    head_url: headUrl,
  },
}

export const exampleSnapshotUrls = { first_part: 3, part_urls: [partUrl(3), partUrl(4)] }

export const exampleCompleteSnapshot = { complete_url: completeUrl, head_url: headUrl }

export const exampleSnapshot = {
  id: 'nightly-1',
  vm_id: 'web-1',
  status: 'uploading',
  progress: { phase: 'packing', done_mib: 310, total_mib: 2048, percent: 15 },
  needs_urls: true,
  lacking_urls: { parts: [3], complete: false },
  parts: { size_mib: 64, packed: 3, sent: 2 },
  size_mib: 2048,
  staged_mib: 192,
  consistency: 'file_system',
  captured_at: '2030-01-01T12:00:00.180Z',
  paused_ms: 12,
  last_activity_at: '2030-01-01T12:00:09.311Z',
  revision: 31,
  created_at: '2030-01-01T12:00:00.000Z',
  updated_at: '2030-01-01T12:00:09.311Z',
}
