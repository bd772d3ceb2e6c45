import type { SignedUrl } from './signed-url.ts'

/** Where an image comes from: `https:` (usually signed), or `file:` inside the configured local directory. */
export type ImageSource = { readonly url: SignedUrl }
