/**
 * A controller's side of object storage: it holds the credentials, and makes signed URLs for a daemon that has none.
 */
import { readFileSync } from 'node:fs'
import { Agent } from 'node:https'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'

/** Access for a client with credentials. The daemon gets nothing of it but the authority. */
export type StoreAccess = {
  readonly endpoint: string
  readonly region: string
  readonly accessKey: string
  readonly secretKey: string
  readonly bucket: string
  /** PEM file of the authority that signed the store's certificate. */
  readonly caFile: string
}

/** Long enough for everything that a test does. */
const EXPIRES_SECONDS = 3600

/** An upload that was begun, with a signed URL for each step of it. */
export type Upload = {
  readonly key: string
  readonly uploadId: string
  readonly partUrls: readonly string[]
  readonly completeUrl: string
  readonly headUrl: string
  readonly getUrl: string
}

export type StoredPart = { readonly number: number; readonly etag: string; readonly bytes: number }

export type SignOptions = { readonly expiresSeconds?: number }

export type Bucket = {
  /** Creates the bucket; safe to repeat. */
  create(): Promise<void>
  /** Begins a multipart upload, and signs URLs for so many parts and its end. */
  createUpload(key: string, parts: number, options?: SignOptions): Promise<Upload>
  /** The same upload with fresh URLs. */
  signAgain(upload: Upload, options?: SignOptions): Promise<Upload>
  /** Lists the stored parts of an upload that is neither completed nor aborted. */
  listParts(upload: Upload): Promise<readonly StoredPart[]>
  /** Lists uploads that are neither completed nor aborted. */
  listUploads(): Promise<readonly string[]>
  abort(upload: Upload): Promise<void>
  getUrl(key: string, options?: SignOptions): Promise<string>
  /** Signs a URL for an object in one piece. */
  putUrl(key: string, options?: SignOptions): Promise<string>
  /** Asks with credentials, not by a signed URL. Returns undefined if there is no such object. */
  sizeOf(key: string): Promise<number | undefined>
  remove(key: string): Promise<void>
  /** Closes the connections, so that the process can end. */
  close(): void
}

/** `canary` is a parameter in the query of each signed URL, covered by the signature. */
export function bucketOf(access: StoreAccess, canary?: string): Bucket {
  const [client, signing] = [clientOf(access), clientOf(access)]
  if (canary !== undefined) addToQuery(signing, 'x-lab-canary', canary)
  const Bucket = access.bucket
  const sign = signerOf(signing, Bucket)
  return {
    async create() {
      try {
        await client.send(new CreateBucketCommand({ Bucket }))
      } catch (error) {
        if ((error as Error).name !== 'BucketAlreadyOwnedByYou') throw error
      }
    },
    async createUpload(key, parts, options) {
      const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: key }))
      if (UploadId === undefined) throw new Error('the store began no upload')
      return sign.upload({ key, uploadId: UploadId, parts, options })
    },
    signAgain: ({ key, uploadId, partUrls }, options) =>
      sign.upload({ key, uploadId, parts: partUrls.length, options }),
    async listParts({ key, uploadId }) {
      const { Parts = [] } = await client.send(
        new ListPartsCommand({ Bucket, Key: key, UploadId: uploadId, MaxParts: 1000 }),
      )
      return Parts.map(({ PartNumber = 0, ETag = '', Size = 0 }) => ({
        number: PartNumber,
        etag: ETag,
        bytes: Size,
      }))
    },
    async listUploads() {
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }))
      return Uploads.flatMap(({ UploadId }) => UploadId ?? [])
    },
    async abort({ key, uploadId }) {
      await client.send(new AbortMultipartUploadCommand({ Bucket, Key: key, UploadId: uploadId }))
    },
    getUrl: (key, options) => sign.get(key, options),
    putUrl: (key, options) => sign.put(key, options),
    async sizeOf(key) {
      try {
        return (await client.send(new HeadObjectCommand({ Bucket, Key: key }))).ContentLength
      } catch (error) {
        if ((error as Error).name === 'NotFound') return undefined
        throw error
      }
    },
    async remove(key) {
      await client.send(new DeleteObjectCommand({ Bucket, Key: key }))
    },
    close() {
      client.destroy()
      signing.destroy()
    },
  }
}

function clientOf({ endpoint, region, accessKey, secretKey, caFile }: StoreAccess): S3Client {
  return new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId: accessKey, secretAccessKey: secretKey },
    // Otherwise a signed URL has the checksum of an empty body, and the store refuses any other body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 1,
    // Tests stop the store while they speak to it, so never reuse a connection.
    requestHandler: { httpsAgent: new Agent({ ca: readFileSync(caFile), keepAlive: false }) },
  })
}

function addToQuery(client: S3Client, name: string, value: string): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const request = args.request as { query: Record<string, string> }
      request.query[name] = value
      return next(args)
    },
    { step: 'build', name },
  )
}

type Signer = {
  upload(what: {
    readonly key: string
    readonly uploadId: string
    readonly parts: number
    readonly options: SignOptions | undefined
  }): Promise<Upload>
  get(key: string, options: SignOptions | undefined): Promise<string>
  put(key: string, options: SignOptions | undefined): Promise<string>
}

type Signable =
  | UploadPartCommand
  | CompleteMultipartUploadCommand
  | HeadObjectCommand
  | GetObjectCommand
  | PutObjectCommand

function signerOf(client: S3Client, Bucket: string): Signer {
  const signed = async (
    command: Signable,
    { expiresSeconds = EXPIRES_SECONDS }: SignOptions = {},
  ): Promise<string> =>
    // The presigner's types were not made with exactOptionalPropertyTypes.
    getSignedUrl(client, command as unknown as Parameters<typeof getSignedUrl>[1], {
      expiresIn: expiresSeconds,
    })
  return {
    async upload({ key, uploadId, parts, options }) {
      const of = { Bucket, Key: key, UploadId: uploadId }
      const numbers = Array.from({ length: parts }, (_, index) => index + 1)
      const partUrls = numbers.map(async (PartNumber) =>
        signed(new UploadPartCommand({ ...of, PartNumber }), options),
      )
      return {
        key,
        uploadId,
        partUrls: await Promise.all(partUrls),
        completeUrl: await signed(new CompleteMultipartUploadCommand(of), options),
        headUrl: await signed(new HeadObjectCommand({ Bucket, Key: key }), options),
        getUrl: await signed(new GetObjectCommand({ Bucket, Key: key }), options),
      }
    },
    get: async (key, options) => signed(new GetObjectCommand({ Bucket, Key: key }), options),
    put: async (key, options) => signed(new PutObjectCommand({ Bucket, Key: key }), options),
  }
}
