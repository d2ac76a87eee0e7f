// A gRPC server that holds finished echo tasks, and grpc-gateway in front of it, in one process.
//
// Between the two is a connection over loopback, as grpc-gateway has it. The tasks are those named as
// arguments; a task's id is a UUID, as everywhere in these benchmarks.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"

	"bench/pb"

	"github.com/golang/protobuf/ptypes/timestamp"
	"github.com/grpc-ecosystem/grpc-gateway/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	text      = "The quick brown fox jumps over the lazy dog."
	contextId = "5f0b1a52-43c1-4c0e-8a4f-7a0b3c8f2d11"
)

type store map[string]*pb.Task

func (s store) GetTask(_ context.Context, request *pb.GetTaskRequest) (*pb.Task, error) {
	task, found := s[request.Id]
	if !found {
		return nil, status.Errorf(codes.NotFound, "no task %q", request.Id)
	}
	return task, nil
}

func finished(id string) *pb.Task {
	parts := []*pb.Part{{Content: &pb.Part_Text{Text: text}}}
	said := &pb.Message{MessageId: "bench", TaskId: id, ContextId: contextId, Role: pb.Role_ROLE_USER, Parts: parts}
	return &pb.Task{
		Id:        id,
		ContextId: contextId,
		Status: &pb.TaskStatus{
			State:     pb.TaskState_TASK_STATE_COMPLETED,
			Timestamp: &timestamp.Timestamp{Seconds: 1_700_000_000, Nanos: 123_000_000},
		},
		Artifacts: []*pb.Artifact{{ArtifactId: "1-1", Name: "echo", Parts: parts}},
		History:   []*pb.Message{said},
	}
}

func main() {
	address := flag.String("http", "", "where the gateway listens")
	flag.Parse()
	tasks := store{}
	for _, id := range flag.Args() {
		tasks[id] = finished(id)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTasksServer(server, tasks)
	go func() { log.Fatal(server.Serve(listener)) }()
	mux := runtime.NewServeMux()
	plain := []grpc.DialOption{grpc.WithInsecure()}
	if err := pb.RegisterTasksHandlerFromEndpoint(context.Background(), mux, listener.Addr().String(), plain); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*address, mux))
}
