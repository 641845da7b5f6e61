// What geesefs expects of its own copy of the AWS SDK, beyond the SDK that is published.
//
// That copy is a directory which its published module leaves out. All that is missing are two calls that only
// Yandex's own store knows; geesefs makes neither at another store. `install.sh` puts this file into the published
// SDK, and the field UserMetadata into its Object. Both calls say that the store does not know them.

package s3

import (
	"io"
	"time"

	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/request"
)

// A listing with the metadata of each object.
type (
	ListObjectsV1ExtInput  ListObjectsV2Input
	ListObjectsV1ExtOutput ListObjectsV2Output
)

func (c *S3) ListObjectsV1ExtRequest(input *ListObjectsV1ExtInput) (*request.Request, *ListObjectsV1ExtOutput) {
	return c.unknown("ListObjectsV1Ext"), &ListObjectsV1ExtOutput{}
}

// A change of a part of an object.
type (
	PatchObjectInput struct {
		Bucket, Key, ContentRange *string
		Body                      io.ReadSeeker
		PatchAppendPartSize       *int64
	}
	PatchObjectOutput struct{ Object *PatchedObject }
	PatchedObject     struct {
		ETag         *string
		LastModified *time.Time
	}
)

func (c *S3) PatchObjectRequest(input *PatchObjectInput) (*request.Request, *PatchObjectOutput) {
	return c.unknown("PatchObject"), &PatchObjectOutput{}
}

func (c *S3) unknown(name string) *request.Request {
	call := c.NewRequest(&request.Operation{Name: name, HTTPMethod: "GET", HTTPPath: "/"}, nil, nil)
	call.Error = awserr.New("NotImplemented", name+" is not part of this build", nil)
	return call
}
